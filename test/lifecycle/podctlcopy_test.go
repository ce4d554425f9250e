package lifecycle

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	containerregistry "github.com/google/go-containerregistry/pkg/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
)

// The images of these tests: one with the machine's tar, and one whose tar prints the archive /attacks/NAME for the
// file NAME.
const (
	toolsImage   = "localhost/podstream-tools:dev"
	hostileImage = "localhost/podstream-hostile:dev"
)

// hostileTar prints the archive that has the name of its last argument. "endless" goes on without end, "slow" too but
// slowly.
const hostileTar = `#!/bin/sh
for last; do :; done
cat "/attacks/$last"
case $last in
./endless) cat /dev/zero;;
./slow) while echo more; do /sample sleep 50ms; done;;
esac
`

// imported has an entry for each runtime that has both images.
var (
	importing sync.Mutex
	imported  = map[devnode.Runtime]bool{}
)

// importTools imports both images into the bench's runtime, unless it has them.
func importTools(t *testing.T, b *bench) {
	t.Helper()
	importing.Lock()
	defer importing.Unlock()
	if imported[b.runtime] {
		return
	}
	sample, err := devnode.BuildSampleImage(filepath.Join(nodes.BinDir, "sample"))
	check(t, err)
	tools, err := devnode.WithTools(t.Context(), sample)
	check(t, err)
	files := map[string]devnode.File{"bin/tar": {Content: []byte(hostileTar), Mode: 0o755}}
	for name, a := range attacks {
		files["attacks/"+name] = devnode.File{Content: archiveOf(t, a.headers...), Mode: 0o644}
	}
	hostile, err := devnode.WithFiles(tools, files)
	check(t, err)
	check(t, b.Node.ImportImages(t.Context(), map[string]containerregistry.Image{toolsImage: tools, hostileImage: hostile}))
	imported[b.runtime] = true
}

func archiveOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, h := range headers {
		h.Format = tar.FormatGNU
		if h.Typeflag == tar.TypeReg && h.Size == 0 {
			h.Size = 4
		}
		check(t, w.WriteHeader(&h))
		if h.Size > 4 {
			return append(archive.Bytes(), make([]byte, 1<<10)...) // The rest never comes.
		}
		_, err := w.Write([]byte("evil")[:h.Size])
		check(t, err)
	}
	check(t, w.Close())
	return archive.Bytes()
}

func entryOf(kind byte, name, link string) tar.Header {
	return tar.Header{Typeflag: kind, Name: name, Linkname: link, Mode: 0o4777}
}

// attacks are what the tar of a container may print for the file of that name, and what podctl says then.
var attacks = map[string]struct {
	headers []tar.Header
	want    string
}{
	"dotdot":   {[]tar.Header{entryOf(tar.TypeDir, "dotdot/", ""), entryOf(tar.TypeReg, "dotdot/../../escaped", "")}, "leads out of its directory"},
	"absolute": {[]tar.Header{entryOf(tar.TypeDir, "absolute/", ""), entryOf(tar.TypeReg, "/tmp/podstream-escaped", "")}, "absolute name"},
	"other":    {[]tar.Header{entryOf(tar.TypeDir, "other/", ""), entryOf(tar.TypeReg, ".profile", "")}, "isn't below"},
	"symlink":  {[]tar.Header{entryOf(tar.TypeDir, "symlink/", ""), entryOf(tar.TypeSymlink, "symlink/l", "/etc/shadow")}, "is a symbolic link"},
	"through": {[]tar.Header{entryOf(tar.TypeDir, "through/", ""), entryOf(tar.TypeSymlink, "through/l", ".."),
		entryOf(tar.TypeReg, "through/l/escaped", "")}, "is a symbolic link"},
	"hardlink": {[]tar.Header{entryOf(tar.TypeDir, "hardlink/", ""), entryOf(tar.TypeLink, "hardlink/l", "/etc/shadow")}, "is a hard link"},
	"device":   {[]tar.Header{entryOf(tar.TypeDir, "device/", ""), {Typeflag: tar.TypeChar, Name: "device/mem", Devmajor: 1, Devminor: 1}}, "is a device"},
	"block":    {[]tar.Header{entryOf(tar.TypeDir, "block/", ""), {Typeflag: tar.TypeBlock, Name: "block/disk", Devmajor: 8}}, "is a device"},
	"fifo":     {[]tar.Header{entryOf(tar.TypeDir, "fifo/", ""), entryOf(tar.TypeFifo, "fifo/f", "")}, "is a FIFO"},
	"long":     {[]tar.Header{entryOf(tar.TypeDir, "long/", ""), entryOf(tar.TypeReg, "long/"+strings.Repeat("x", 300), "")}, "an element of 300 bytes"},
	"control":  {[]tar.Header{entryOf(tar.TypeDir, "control/", ""), entryOf(tar.TypeReg, "control/\x1b]0;pwned\a", "")}, "control characters"},
	"entries": {[]tar.Header{entryOf(tar.TypeDir, "entries/", ""), entryOf(tar.TypeReg, "entries/1", ""), entryOf(tar.TypeReg, "entries/2", ""),
		entryOf(tar.TypeReg, "entries/3", "")}, "more than 3 entries"},
	"large":   {[]tar.Header{entryOf(tar.TypeDir, "large/", ""), {Typeflag: tar.TypeReg, Name: "large/f", Size: 2 << 20}}, "more than 1048576 bytes"},
	"endless": {[]tar.Header{entryOf(tar.TypeDir, "endless/", "")}, "more after its end"},
	"slow":    {[]tar.Header{entryOf(tar.TypeDir, "slow/", ""), {Typeflag: tar.TypeReg, Name: "slow/f", Size: 1 << 30}}, "more than 1048576 bytes"},
	"setuid":  {[]tar.Header{entryOf(tar.TypeDir, "setuid/", ""), entryOf(tar.TypeReg, "setuid/su", "")}, ""},
}

// A tar in a container that prints each kind of hostile archive has no effect beside the files in the destination, and
// podctl names each kind. Package archive shows that each of these attacks succeeds without its check.
func TestPodctlCopyHostile(t *testing.T) {
	on(t, latestContainerd, func(t *testing.T, b *bench) {
		importTools(t, b)
		p := b.run(t, `containers: [{name: main, image: "`+hostileImage+`", imagePullPolicy: Never, args: [sleep]}]`)
		p.awaitReady()
		for name, a := range attacks {
			top := t.TempDir()
			dest := filepath.Join(top, "work", "dest")
			check(t, os.MkdirAll(dest, 0o755))
			_, stderr, code := b.podctl(t.Context(), "cp", "--max-entries=3", "--max-bytes=1Mi", p.name+":/"+name, dest)
			if (code == 0) != (a.want == "") || !strings.Contains(stderr, a.want) || strings.ContainsAny(stderr, "\x1b\a") {
				t.Errorf("%s: exit code %d, stderr %q; want %q", name, code, stderr, a.want)
			}
			check(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := d.Info()
				if err != nil {
					return err
				}
				below := path == dest || strings.HasPrefix(path, dest+"/")
				switch mode := info.Mode(); {
				case !mode.IsRegular() && !mode.IsDir(), mode&(fs.ModeSetuid|fs.ModeSetgid) != 0, mode.IsRegular() && !below,
					strings.Contains(path, ".podctl-cp-"):
					t.Errorf("%s: there is %s, %v", name, path, mode)
				}
				return nil
			}))
		}
		if _, err := os.Lstat("/tmp/podstream-escaped"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file with an absolute name is written: %v", err)
		}
	})
}

// The tar of a copy ends when its caller has gone, in both directions.
func TestCopyEndsTar(t *testing.T) {
	on(t, containerds, func(t *testing.T, b *bench) {
		importTools(t, b)
		p := b.run(t, `
containers:
- {name: from, image: "`+hostileImage+`", imagePullPolicy: Never, args: [sleep]}
- {name: to, image: "`+toolsImage+`", imagePullPolicy: Never, args: [sleep]}`)
		p.awaitReady()
		// running returns an error with the processes of a container beside its first one and the one that lists them.
		// One without arguments has ended.
		running := func(container string) error {
			stdout, stderr, code := b.podctl(t.Context(), "exec", "-c", container, p.name, "--", "sh", "-c",
				`for p in /proc/[0-9]*; do [ $p = /proc/1 ] || [ $p = /proc/$$ ] || [ -z "$(cat $p/cmdline)" ] || echo $p; done 2>/dev/null`)
			if code != 0 {
				t.Errorf("list processes: %s", stderr)
			}
			if stdout != "" {
				return fmt.Errorf("there are %q", strings.Fields(stdout))
			}
			return nil
		}
		for container, start := range map[string]*podexecv1.CopyStart{
			"from": {Path: "/slow", Direction: podexecv1.CopyStart_DIRECTION_FROM_CONTAINER},
			"to":   {Path: "/tmp", Direction: podexecv1.CopyStart_DIRECTION_TO_CONTAINER},
		} {
			start.Ref, start.Container = &podconfigv1.PodRef{Name: p.name + "-" + b.Name}, container
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := b.Exec.Copy(ctx)
			check(t, err)
			check(t, stream.Send(&podexecv1.CopyRequest{Message: &podexecv1.CopyRequest_Start{Start: start}}))
			_, err = stream.Recv()
			check(t, err)
			if container == "to" {
				part := archiveOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "f", Size: 1 << 20, Mode: 0o644})
				check(t, stream.Send(&podexecv1.CopyRequest{Message: &podexecv1.CopyRequest_Data{Data: part}}))
			} else {
				_, err = stream.Recv()
				check(t, err)
			}
			eventually(t, "tar runs", func() error {
				if running(container) == nil {
					return errors.New("it doesn't")
				}
				return nil
			})
			cancel()
			eventually(t, "tar has ended in "+container, func() error { return running(container) })
		}
	})
}

// podctl cp brings a directory of a thousand files to a container and back, with the same contents and modes.
func TestPodctlCopy(t *testing.T) {
	on(t, latestContainerd, func(t *testing.T, b *bench) {
		importTools(t, b)
		p := b.run(t, `
containers:
- {name: main, image: "`+toolsImage+`", imagePullPolicy: Never, args: [sleep]}
- {name: bare, args: [sleep]}`)
		p.awaitReady()
		top := t.TempDir()
		source := filepath.Join(top, "source")
		for i := range 1000 {
			dir := filepath.Join(source, fmt.Sprint("dir ", i%20), strings.Repeat("deeper/", i%3))
			check(t, os.MkdirAll(dir, 0o755))
			size := i * 31 % 5000
			if i == 500 {
				size = 3 << 20
			}
			file := filepath.Join(dir, fmt.Sprintf("-file-%d-%s", i, strings.Repeat("ü", i%60)))
			check(t, os.WriteFile(file, bytes.Repeat([]byte(fmt.Sprint(i)), size), 0o600))
			check(t, os.Chmod(file, []fs.FileMode{0o644, 0o600, 0o755, 0o444, 0o711}[i%5]))
		}
		check(t, os.Chmod(filepath.Join(source, "dir 7"), 0o711))
		copies := func(args ...string) {
			t.Helper()
			if stdout, stderr, code := b.podctl(t.Context(), append([]string{"cp", "-c", "main"}, args...)...); code != 0 || stdout+stderr != "" {
				t.Errorf("podctl cp %q: exit code %d, %s%s", args, code, stdout, stderr)
			}
		}
		copies(source, p.name+":/tmp/there")
		copies(p.name+":/tmp/there", filepath.Join(top, "back"))
		if diff := cmp.Diff(filesIn(t, source), filesIn(t, filepath.Join(top, "back"))); diff != "" {
			t.Errorf("files (-source +back):\n%.3000s", diff)
		}
		// Into a directory that exists, and a path that looks like an option.
		copies(source+"/dir 7", "default/"+p.name+":/tmp")
		copies(p.name+":/tmp/dir 7/", filepath.Join(top, "seven"))
		if diff := cmp.Diff(filesIn(t, source+"/dir 7"), filesIn(t, filepath.Join(top, "seven"))); diff != "" {
			t.Errorf("files (-source +back):\n%.3000s", diff)
		}
		check(t, os.WriteFile(filepath.Join(top, "f"), []byte("text"), 0o600))
		copies(filepath.Join(top, "f"), p.name+":--version")
		copies(p.name+":--version", filepath.Join(top, "g"))
		if text, err := os.ReadFile(filepath.Join(top, "g")); string(text) != "text" {
			t.Errorf("%q came back, %v", text, err)
		}
		for _, args := range [][]string{{p.name + ":/sample", top}, {filepath.Join(top, "f"), p.name + ":/f"}} {
			_, stderr, code := b.podctl(t.Context(), append([]string{"cp", "-c", "bare"}, args...)...)
			if code != 1 || !strings.Contains(stderr, "container bare of pod default/"+p.name) || !strings.Contains(stderr, "has no tar") {
				t.Errorf("podctl cp %q without tar: exit code %d, stderr %q", args, code, stderr)
			}
		}
		if _, stderr, code := b.podctl(t.Context(), "cp", "-c", "main", p.name+":/no/such", top); code != 1 || !strings.Contains(stderr, "No such file") {
			t.Errorf("a path that doesn't exist: exit code %d, stderr %q", code, stderr)
		}
	})
}

// filesIn are the modes and contents of what is below a directory.
func filesIn(t *testing.T, top string) map[string]string {
	t.Helper()
	files := map[string]string{}
	check(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(top, path)
		files[name] = info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			files[name] += " " + string(content)
			return err
		}
		return nil
	}))
	return files
}
