package archive

import (
	"archive/tar"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/sources/fault"
)

// FuzzRead: no layer causes a panic, or a file that the limits don't allow; an error has the words of this package.
func FuzzRead(f *testing.F) {
	archive := tarOf(f, entry{name: "./a.yaml", text: pod}, entry{name: "b/", kind: tar.TypeDir}, entry{name: "b/c.json", text: "{}"})
	f.Add(archive, "", archiveTypes[0], false)
	f.Add(gzipped(f, archive), "", archiveTypes[1], false)
	f.Add(gzipped(f, archive), "x", archiveTypes[4], true)
	f.Add([]byte(pod), "web.yaml", "application/yaml", false)
	f.Add(tarOf(f, entry{name: "a.yaml", kind: tar.TypeSymlink, link: "/etc"}), "", archiveTypes[0], false)
	f.Fuzz(func(t *testing.T, data []byte, title, mediaType string, directory bool) {
		c, err := Read([]Layer{{MediaType: mediaType, Title: title, Directory: directory, Data: data}})
		if err != nil {
			var own fault.Error
			if !errors.As(err, &own) || len(own) > 300 || strings.ContainsAny(string(own), "\n\x00\x1b") {
				t.Fatalf("the error is %q", err)
			}
			return
		}
		total := 0
		for i, file := range c.Files {
			total += len(file.Data)
			if path.IsAbs(file.Name) || path.Clean(file.Name) != file.Name || slices.Contains(strings.Split(file.Name, "/"), "..") ||
				len(file.Name) > maxName || !isManifest(file.Name) || i > 0 && c.Files[i-1].Name >= file.Name {
				t.Fatalf("there is a file %q", file.Name)
			}
		}
		if total > maxUnpacked || total > max(ratioFloor, maxRatio*len(data)) || len(c.Files) > maxFiles || len(c.Ignored) > maxIgnored {
			t.Fatalf("%d files of %d bytes, %d others", len(c.Files), total, len(c.Ignored))
		}
	})
}
