package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// attack is an archive that a hostile tar sends for the directory, or file, d.
type attack struct {
	name string
	// archive returns it. Limits apply to the attack only; zero: the standard ones.
	archive func(t *testing.T, p place) io.Reader
	limits  Limits
	// prepare makes what the destination has before.
	prepare func(p place) error
	// want is a part of what is reported.
	want string
	// off are the checks without which the attack succeeds, with a naive writer; without off, with the product's
	// writer, which follows links then.
	off []check
	// succeeded reports whether it had an effect.
	succeeded func(p place) bool
	// root is set if the naive writer makes a device.
	root bool
}

func of(parts ...part) func(*testing.T, place) io.Reader {
	return func(t *testing.T, _ place) io.Reader { return bytes.NewReader(archived(t, parts...)) }
}

var attacks = []attack{
	{
		name: "a name that leads out", archive: of(dir("d"), file("d/../../escaped", "x")), want: `leads out of its directory by ".."`,
		off: []check{checkDotDot}, succeeded: func(p place) bool { return exists(p.top, "escaped") },
	},
	{
		name: "a first name that leads out", archive: of(file("../escaped", "x")), want: `leads out of its directory by ".."`,
		off: []check{checkDotDot, checkName}, succeeded: func(p place) bool { return exists(p.top, "work", "escaped") },
	},
	{
		name: "a directory that leads out", archive: of(dir("d"), dir("d/.."), dir("d/../new")), want: `leads out of its directory by ".."`,
		off: []check{checkDotDot}, succeeded: func(p place) bool { return exists(p.top, "work", "new") },
	},
	{
		name: "an absolute name", archive: func(t *testing.T, p place) io.Reader {
			return bytes.NewReader(archived(t, dir("d"), file(p.outside+"/escaped", "x")))
		},
		want: "absolute name", off: []check{checkAbsolute, checkClean, checkName}, succeeded: func(p place) bool { return exists(p.outside, "escaped") },
	},
	{
		name: "an absolute name with a prefix", archive: func(t *testing.T, p place) io.Reader {
			return bytes.NewReader(archived(t, dir("d"), file("./"+p.outside+"/escaped", "x")))
		},
		want: "is empty", off: []check{checkClean, checkName}, succeeded: func(p place) bool { return exists(p.dest, p.outside, "escaped") },
	},
	{
		name: "a file that wasn't asked for", archive: of(dir("d"), file("d/a", "x"), file("other/.profile", "x")), want: `isn't below "d"`,
		off: []check{checkName}, succeeded: func(p place) bool { return exists(p.dest, "other", ".profile") },
	},
	{
		name: "a file beside the one that was asked for", archive: of(file("d", "x"), file("d/.profile", "x")), want: "all that was asked for",
		off: []check{checkName}, succeeded: func(p place) bool { return exists(p.dest, ".profile") },
	},
	{
		name: "a directory that becomes a file", archive: of(dir("d"), file("d", "x")), want: "comes after the directory",
		off: []check{checkName}, succeeded: func(p place) bool { return exists(p.dest, "d") },
	},
	{
		name: "a symbolic link", archive: func(t *testing.T, p place) io.Reader {
			return bytes.NewReader(archived(t, dir("d"), special("d/link", tar.TypeSymlink, filepath.Join(p.outside, "secret"))))
		},
		want: "a symbolic link", off: []check{checkKind}, succeeded: func(p place) bool { return is(fs.ModeSymlink, p.dest, "link") },
	},
	{
		name: "a file through a symbolic link", archive: of(dir("d"), special("d/link", tar.TypeSymlink, "../outside"), file("d/link/escaped", "x")),
		want: "can't be entered", off: []check{checkKind}, succeeded: func(p place) bool { return exists(p.outside, "escaped") },
	},
	{
		name: "a symbolic link in place of what was asked for", archive: of(special("d", tar.TypeSymlink, "outside"), file("d/escaped", "x")),
		want: "a symbolic link", off: []check{checkKind, checkName}, prepare: func(p place) error { return os.Remove(p.dest) },
		succeeded: func(p place) bool { return exists(p.outside, "escaped") },
	},
	{
		name: "a hard link", archive: func(t *testing.T, p place) io.Reader {
			return bytes.NewReader(archived(t, dir("d"), special("d/link", tar.TypeLink, filepath.Join(p.outside, "secret"))))
		},
		want: "a hard link", off: []check{checkKind}, succeeded: func(p place) bool { return exists(p.dest, "link") },
	},
	{
		name: "a FIFO", archive: of(dir("d"), special("d/fifo", tar.TypeFifo, "")), want: "a FIFO",
		off: []check{checkKind}, succeeded: func(p place) bool { return is(fs.ModeNamedPipe, p.dest, "fifo") },
	},
	{
		name: "a character device", archive: of(dir("d"), part{tar.Header{Name: "d/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}, ""}),
		want: "a device", off: []check{checkKind}, root: true, succeeded: func(p place) bool { return is(fs.ModeCharDevice, p.dest, "null") },
	},
	{
		name: "a block device", archive: of(dir("d"), part{tar.Header{Name: "d/disk", Typeflag: tar.TypeBlock, Devmajor: 7, Devminor: 0}, ""}),
		want: "a device", off: []check{checkKind}, root: true, succeeded: func(p place) bool { return is(fs.ModeDevice, p.dest, "disk") },
	},
	{
		name: "a kind that isn't known", archive: of(dir("d"), special("d/what", 'Z', "")), want: "of a kind that isn't known",
		off: []check{checkKind}, succeeded: func(p place) bool { return exists(p.dest, "what") },
	},
	{
		name: "directories without end", archive: func(t *testing.T, _ place) io.Reader {
			parts := []part{dir("d")}
			for i := range maxDepth + 1 {
				parts = append(parts, dir("d"+strings.Repeat("/x", i+1)))
			}
			return bytes.NewReader(archived(t, parts...))
		},
		want: "slashes", off: []check{checkLength}, succeeded: func(p place) bool { return exists(p.dest, strings.Repeat("x/", maxDepth+1)) },
	},
	{
		name: "control characters", archive: of(dir("d"), file("d/\x1b]0;pwned\a", "x")), want: "control characters",
		off: []check{checkControl}, succeeded: func(p place) bool { return exists(p.dest, "\x1b]0;pwned\a") },
	},
	{
		name: "a line end", archive: of(dir("d"), file("d/a\nb", "x")), want: "control characters",
		off: []check{checkControl}, succeeded: func(p place) bool { return exists(p.dest, "a\nb") },
	},
	{
		name: "another order of characters", archive: of(dir("d"), file("d/\u202etxt.sh", "x")), want: "control characters",
		off: []check{checkControl}, succeeded: func(p place) bool { return exists(p.dest, "\u202etxt.sh") },
	},
	{
		name: "no UTF-8", archive: of(dir("d"), file("d/\x9b31m", "x")), want: "isn't UTF-8",
		off: []check{checkControl}, succeeded: func(p place) bool { return exists(p.dest, "\x9b31m") },
	},
	{
		name: "too many entries", limits: Limits{MaxEntries: 3, MaxBytes: 100}, archive: of(dir("d"), file("d/1", ""), file("d/2", ""), file("d/3", "")),
		want: "more than 3 entries", off: []check{checkEntries}, succeeded: func(p place) bool { return exists(p.dest, "3") },
	},
	{
		name: "too many bytes in a file", limits: Limits{MaxEntries: 9, MaxBytes: 10}, archive: of(dir("d"), file("d/large", "eleven byte")),
		want: "more than 10 bytes", off: []check{checkBytes}, succeeded: func(p place) bool { return exists(p.dest, "large") },
	},
	{
		name: "too many bytes in all", limits: Limits{MaxEntries: 9, MaxBytes: 10}, archive: of(dir("d"), file("d/1", "123456"), file("d/2", "12345")),
		want: "more than 10 bytes", off: []check{checkBytes}, succeeded: func(p place) bool { return exists(p.dest, "2") },
	},
	{
		name: "a file with holes", limits: Limits{MaxEntries: 9, MaxBytes: 1 << 16}, archive: func(t *testing.T, _ place) io.Reader {
			return bytes.NewReader(sparse(t, "d", 1<<20))
		},
		want: "has 1048576 bytes", off: []check{checkBytes}, succeeded: func(p place) bool {
			info, err := os.Stat(filepath.Join(p.dest, "d"))
			return err == nil && info.Size() == 1<<20
		},
	},
	{
		name: "headers without end", limits: Limits{MaxEntries: 1, MaxBytes: 1}, archive: func(t *testing.T, _ place) io.Reader {
			return io.MultiReader(headers(t, 4<<20), bytes.NewReader(archived(t, dir("d"))))
		},
		want: errTooLong.Error(), off: []check{checkBytes, checkEntries}, succeeded: func(p place) bool { return is(0o1, p.dest) },
		prepare: func(p place) error { return os.Chmod(p.dest, 0o700) },
	},
	{
		name: "setuid", archive: of(dir("d"), withMode(file("d/su", "x"), 0o4755)), want: "",
		off: []check{checkMode}, succeeded: func(p place) bool { return is(fs.ModeSetuid, p.dest, "su") },
	},
	{
		name: "setgid", archive: of(dir("d"), withMode(file("d/sg", "x"), 0o2755), withMode(dir("d/sub"), 0o2755)), want: "",
		off: []check{checkMode}, succeeded: func(p place) bool { return is(fs.ModeSetgid, p.dest, "sg") || is(fs.ModeSetgid, p.dest, "sub") },
	},
	{
		name: "a directory through a link that exists", archive: of(dir("d"), dir("d/sub"), file("d/sub/evil", "x")), want: "a symbolic link, through which nothing is written",
		prepare: func(p place) error {
			if err := os.Mkdir(filepath.Join(p.dest, "precious"), 0o755); err != nil {
				return err
			}
			return os.Symlink("precious", filepath.Join(p.dest, "sub"))
		},
		succeeded: func(p place) bool { return exists(p.dest, "precious", "evil") },
	},
	{
		name: "a link that exists", archive: of(dir("d"), file("d/link", "evil")), want: "a symbolic link, through which nothing is written",
		prepare:   func(p place) error { return os.Symlink("../outside/secret", filepath.Join(p.dest, "link")) },
		succeeded: func(p place) bool { return !is(fs.ModeSymlink, p.dest, "link") },
	},
}

// TestAttacks: no attack has an effect, and each is reported. Without the check that is there for it, each succeeds, so
// that the check is what stops it; with it, also a writer without any care is safe.
func TestAttacks(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			if a.limits == (Limits{}) {
				a.limits = standard
			}
			try := func(unpack func(p place) outcome) (outcome, bool) {
				p := newPlace(t)
				if a.prepare != nil {
					if err := a.prepare(p); err != nil {
						t.Fatal(err)
					}
				}
				o := unpack(p)
				return o, a.succeeded(p)
			}
			product, done := try(func(p place) outcome { return unpackTo(a.archive(t, p), "d", a.limits, p.dest, "d") })
			if done {
				t.Errorf("the attack succeeds: %v, skipped %q", product.err, product.skipped)
			}
			if a.want == "" && (product.err != nil || product.skipped != nil) || a.want != "" && !product.says(a.want) {
				t.Errorf("it is reported as %v, skipped %q; want %q", product.err, product.skipped, a.want)
			}
			if a.off == nil {
				o, done := try(func(p place) outcome {
					w := newTree(p.dest, "d")
					w.followLinks = true
					o := unpackWith(a.archive(t, p), &verifier{name: "d", limits: a.limits}, w)
					_ = w.close()
					return o
				})
				if !done {
					t.Errorf("without its check the attack has no effect: %v, skipped %q", o.err, o.skipped)
				}
				return
			}
			naively := func(off ...check) func(place) outcome {
				return func(p place) outcome {
					v := &verifier{name: "d", limits: a.limits, off: map[check]bool{}}
					for _, c := range off {
						v.off[c] = true
					}
					return unpackWith(a.archive(t, p), v, &naive{t, p.dest})
				}
			}
			if o, done := try(naively()); done {
				t.Errorf("with a naive writer the attack succeeds: %v, skipped %q", o.err, o.skipped)
			}
			if a.root && !makesDevices(t) {
				return
			}
			if o, done := try(naively(a.off...)); !done {
				t.Errorf("without its check the attack has no effect: %v, skipped %q", o.err, o.skipped)
			}
			// The writer alone stops what the verifier would let through, as far as it leads out.
			try(func(p place) outcome {
				v := &verifier{name: "d", limits: a.limits, off: map[check]bool{}}
				for _, c := range a.off {
					v.off[c] = true
				}
				before := treeOf(t, p.outside)
				w := newTree(p.dest, "d")
				o := unpackWith(a.archive(t, p), v, w)
				_ = w.close()
				if now := treeOf(t, p.outside); fmt.Sprint(now) != fmt.Sprint(before) || exists(p.top, "escaped") || exists(p.top, "work", "escaped") {
					t.Errorf("without the verifier's check, something is written outside of the destination: %v", now)
				}
				return o
			})
		})
	}
}
