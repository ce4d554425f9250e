package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/podstream/podstream/internal/sources/fault"
)

// Layer is one layer of an artifact.
type Layer struct {
	MediaType string
	// Title is the file name that the tool that pushed the layer gave to it. Empty: none.
	Title string
	// Directory is set if the tool packed the directory Title.
	Directory bool
	Data      []byte
}

// File is a manifest of the artifact.
type File struct {
	// Name is its path in the artifact.
	Name string
	Data []byte
}

// Content is what an artifact has.
type Content struct {
	// Files are the manifests, in the order of their paths, which are unique.
	Files []File
	// Ignored are names of other files, in their order, at most maxIgnored of them, and More is the number of the rest.
	Ignored []string
	More    int
}

// archiveTypes are the media types of archives. Whether one is compressed is taken from its bytes.
var archiveTypes = []string{
	"application/vnd.podstream.manifests.v1.tar",
	"application/vnd.podstream.manifests.v1.tar+gzip",
	"application/vnd.cncf.flux.content.v1.tar+gzip",
	"application/vnd.oci.image.layer.v1.tar",
	"application/vnd.oci.image.layer.v1.tar+gzip",
	"application/vnd.docker.image.rootfs.diff.tar.gzip",
}

// emptyType is the media type of a layer that stands for no content.
const emptyType = "application/vnd.oci.empty.v1+json"

// Read returns the content of an artifact's layers. Its errors are a fault.Error, and worded to follow the artifact's
// name.
func Read(layers []Layer) (*Content, error) {
	r := &reader{left: maxUnpacked, files: map[string][]byte{}}
	packed := 0
	for _, l := range layers {
		packed += len(l.Data)
	}
	if len(layers) > MaxLayers {
		return nil, ErrLayers
	}
	if packed > MaxPacked {
		return nil, ErrPacked
	}
	for _, l := range layers {
		if err := r.layer(l); err != nil {
			return nil, err
		}
	}
	return r.content(), nil
}

// reader collects the files of all layers.
type reader struct {
	// left is how many bytes may still be unpacked.
	left    int64
	entries int
	files   map[string][]byte
	ignored []string
}

func (r *reader) layer(l Layer) error {
	isArchive := slices.Contains(archiveTypes, l.MediaType)
	switch {
	case l.MediaType == emptyType:
		return nil
	case l.Title == "" && !isArchive:
		return fault.Newf("a layer without a file name has the media type %s, which isn't that of an archive", quote(l.MediaType))
	case l.Title == "", isArchive && (l.Directory || isPacked(l.Title)):
		return r.archive(l.Data)
	}
	// oras gives the media type of an archive to a file too.
	return r.file(l.Title, func() ([]byte, error) {
		m := newMeter(bytes.NewReader(l.Data), len(l.Data), &r.left)
		return readFile(m)
	})
}

// isPacked reports whether a file's name is that of an archive.
func isPacked(name string) bool {
	return slices.ContainsFunc([]string{".tar", ".tar.gz", ".tgz"}, func(suffix string) bool { return strings.HasSuffix(name, suffix) })
}

// archive reads an archive to its end, also beyond that of tar: a broken checksum of gzip is found there.
func (r *reader) archive(data []byte) error {
	var unpacked io.Reader = bytes.NewReader(data)
	switch {
	case bytes.HasPrefix(data, []byte("\x1f\x8b")):
		z, err := gzip.NewReader(unpacked)
		if err != nil {
			return errNotTar
		}
		unpacked = z
	case bytes.HasPrefix(data, []byte("\x28\xb5\x2f\xfd")):
		return errZstd
	}
	m := newMeter(unpacked, len(data), &r.left)
	t := tar.NewReader(m)
	for {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return asFault(err)
		}
		if err := r.entry(header, t); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, m); err != nil {
		return asFault(err)
	}
	return nil
}

func (r *reader) entry(header *tar.Header, content io.Reader) error {
	if r.entries++; r.entries > maxEntries {
		return errEntries
	}
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil // "git archive" has the commit in it.
	}
	kind := kindOf(header)
	if kind == directory {
		_, err := cleanName(header.Name)
		return err
	}
	if kind != regular {
		return fault.Newf("%s in it is a %s; only regular files are read", quote(header.Name), kind)
	}
	return r.file(header.Name, func() ([]byte, error) { return readFile(content) })
}

// Kinds of entries that are read. All others are words for an error.
const (
	directory = "directory"
	regular   = "regular file"
)

func kindOf(header *tar.Header) string {
	switch header.Typeflag {
	case tar.TypeReg:
		for record := range header.PAXRecords {
			if strings.HasPrefix(record, "GNU.sparse.") {
				return "sparse file"
			}
		}
		return regular
	case tar.TypeDir:
		return directory
	case tar.TypeSymlink:
		return "symbolic link"
	case tar.TypeLink:
		return "hard link"
	case tar.TypeChar, tar.TypeBlock:
		return "device"
	case tar.TypeFifo:
		return "named pipe"
	case tar.TypeGNUSparse:
		return "sparse file"
	default:
		return "file of an unknown type"
	}
}

// file adds a regular file. read is only called if it is a manifest.
func (r *reader) file(name string, read func() ([]byte, error)) error {
	clean, err := cleanName(name)
	if err != nil {
		return err
	}
	// The layers of an image remove files of the layers below by such names.
	if strings.HasPrefix(path.Base(clean), ".wh.") {
		return fault.Newf("%s in it removes a file of another layer; push all manifests in one", quote(clean))
	}
	if isHidden(clean) {
		return nil
	}
	if !isManifest(clean) {
		r.ignored = append(r.ignored, clean)
		return nil
	}
	if _, ok := r.files[clean]; ok {
		return fault.Newf("%s is in it twice", quote(clean))
	}
	if len(r.files) == maxFiles {
		return errFiles
	}
	data, err := read()
	if err != nil {
		return asFault(err)
	}
	r.files[clean] = data
	return nil
}

// readFile reads one manifest.
func readFile(content io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(content, maxManifest+1))
	if err == nil && len(data) > maxManifest {
		err = errLargeFile
	}
	return data, err
}

func (r *reader) content() *Content {
	c := &Content{}
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		c.Files = append(c.Files, File{Name: name, Data: r.files[name]})
	}
	slices.Sort(r.ignored)
	c.Ignored = slices.Compact(r.ignored)
	if more := len(c.Ignored) - maxIgnored; more > 0 {
		c.Ignored, c.More = c.Ignored[:maxIgnored], more
	}
	return c
}
