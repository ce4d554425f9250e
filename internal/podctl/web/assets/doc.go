// Package assets has the files of the page of `podctl web`, as they were built from internal/podctl/web/ui, and serves them.
//
// The built files are in the repository, so that podctl is built without npm. Package web calls it. It starts no goroutines,
// reads no files at run time, and never serves a file of another kind than those of kinds.
package assets
