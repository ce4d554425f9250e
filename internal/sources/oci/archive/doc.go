// Package archive reads the manifests in the layers of an artifact: tar archives, perhaps with gzip, and single files.
//
// It is pure: it has the bytes of the layers, and returns the files in memory. Package oci calls it with layers whose
// digests are verified, which proves that they are complete and not that they are harmless. So the number of entries,
// their names and sizes, the unpacked bytes and the ratio of compression are bounded, and an archive with anything else
// than directories and regular files is refused as a whole. It writes no file, and runs no goroutines.
package archive
