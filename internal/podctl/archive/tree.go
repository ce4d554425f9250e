package archive

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tree writes entries below one directory of this machine.
type tree struct {
	// where is the path that the user gave, and base the name of a file in it if it is a directory.
	where, base string
	// followLinks makes links that exist count as what they lead to. Only tests set it, to show that an attack succeeds
	// then.
	followLinks bool

	// root is the directory below which all is written. Nil until the first entry.
	root *os.Root
	// open are the directories on the path of the last entry, the outermost first. The first is root, or the directory
	// that the archive is of.
	open []level
}

// level is an open directory.
type level struct {
	name string
	dir  *os.Root
	// lacks are bits of the owner that it must not have in the end. It has them while files are written in it.
	lacks fs.FileMode
}

func newTree(where, base string) *tree { return &tree{where: where, base: base} }

// close closes what is open.
func (t *tree) close() error {
	err := t.leave(0)
	if t.root != nil {
		err = errors.Join(err, t.root.Close())
	}
	return err
}

// dir implements writer.
func (t *tree) dir(e entry) error {
	if len(e.path) == 0 {
		return t.begin(e)
	}
	parent, err := t.enter(e.path[:len(e.path)-1])
	if err != nil {
		return err
	}
	return t.push(parent, e.path[len(e.path)-1], e)
}

// begin opens the directory that the archive is of.
func (t *tree) begin(e entry) error {
	if len(t.open) > 0 {
		return nil
	}
	info, err := os.Stat(t.where)
	switch {
	case err == nil && info.IsDir():
		root, err := os.OpenRoot(t.where)
		if err != nil {
			return err
		}
		inner, err := root.OpenRoot(".")
		if err != nil {
			return errors.Join(err, root.Close())
		}
		t.root, t.open = root, []level{{dir: inner}}
		return nil
	case err == nil:
		return fmt.Errorf("%s isn't a directory, and what is copied is one", t.where)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	where := filepath.Clean(t.where)
	if t.root, err = os.OpenRoot(filepath.Dir(where)); err != nil {
		return err
	}
	return t.push(t.root, filepath.Base(where), e)
}

// push opens a directory in parent, which it makes if it doesn't exist, as the innermost one.
func (t *tree) push(parent *os.Root, name string, e entry) error {
	const owner = 0o700
	lacks := owner &^ e.mode
	// The kernel takes the bits of the umask away.
	if err := parent.Mkdir(name, e.mode|owner); errors.Is(err, fs.ErrExist) {
		lacks = 0 // It keeps its mode.
	} else if err != nil {
		return err
	}
	dir, err := t.openDir(parent, name)
	if err != nil {
		return skippedFor(e, err)
	}
	t.open = append(t.open, level{name: name, dir: dir, lacks: lacks})
	return nil
}

// openDir opens a directory in parent, and not through a link. os.Root would follow one that stays below it.
func (t *tree) openDir(parent *os.Root, name string) (*os.Root, error) {
	before, err := parent.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() && !t.followLinks {
		return nil, inTheWay(before)
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := dir.Stat(".")
	if err == nil && !os.SameFile(before, opened) && !t.followLinks {
		err = errors.New("was replaced meanwhile")
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// enter returns the directory of an entry, whose own entry came before.
func (t *tree) enter(path []string) (*os.Root, error) {
	if len(t.open) == 0 {
		return nil, errors.New("the archive doesn't begin with its directory")
	}
	same := 0
	for same < len(path) && same+1 < len(t.open) && t.open[same+1].name == path[same] {
		same++
	}
	if err := t.leave(same + 1); err != nil {
		return nil, err
	}
	for _, name := range path[same:] {
		dir, err := t.openDir(t.open[len(t.open)-1].dir, name)
		if err != nil {
			return nil, &skipped{strings.Join(path, "/"), "is a directory that can't be entered: " + err.Error()}
		}
		t.open = append(t.open, level{name: name, dir: dir})
	}
	return t.open[len(t.open)-1].dir, nil
}

// leave closes the open directories from an index on.
func (t *tree) leave(from int) error {
	var errs []error
	for len(t.open) > from {
		last := t.open[len(t.open)-1]
		if last.lacks != 0 {
			errs = append(errs, restrict(last.dir, last.lacks))
		}
		errs = append(errs, last.dir.Close())
		t.open = t.open[:len(t.open)-1]
	}
	return errors.Join(errs...)
}

// restrict takes bits from the mode of an open directory.
func restrict(dir *os.Root, bits fs.FileMode) error {
	self, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer self.Close()
	info, err := self.Stat()
	if err != nil {
		return err
	}
	return self.Chmod(info.Mode().Perm() &^ bits)
}

// file implements writer.
func (t *tree) file(e entry, r io.Reader) error {
	var (
		dir  *os.Root
		name string
		err  error
	)
	if len(e.path) == 0 {
		name, err = t.alone()
		dir = t.root
	} else {
		dir, err = t.enter(e.path[:len(e.path)-1])
		name = e.path[len(e.path)-1]
	}
	if err != nil {
		return err
	}
	if err := t.free(dir, name); err != nil {
		return skippedFor(e, err)
	}
	return t.replace(dir, name, e, r)
}

// alone opens the directory for an archive of one file, and returns the file's name there.
func (t *tree) alone() (name string, err error) {
	info, err := os.Stat(t.where)
	dir, name := filepath.Split(t.where)
	switch {
	case err == nil && info.IsDir():
		dir, name = t.where, t.base
	case name == "":
		return "", fmt.Errorf("there is no directory %s", t.where)
	}
	t.root, err = os.OpenRoot(filepath.Clean(dir))
	return name, err
}

// free checks that nothing but a regular file has the name. A race is harmless: a rename replaces a link itself.
func (t *tree) free(dir *os.Root, name string) error {
	info, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular() && !t.followLinks:
		return inTheWay(info)
	}
	return nil
}

// replace writes a file under another name, and renames it when it is complete.
func (t *tree) replace(dir *os.Root, name string, e entry, r io.Reader) (err error) {
	temporary := ".podctl-cp-" + rand.Text()
	// The kernel takes the bits of the umask away.
	file, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, e.mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close(), dir.Remove(temporary))
		}
	}()
	if _, err := io.Copy(file, r); err != nil {
		return fmt.Errorf("write %q: %w", e.header.Name, err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("write %q: %w", e.header.Name, err)
	}
	return dir.Rename(temporary, name)
}

// other implements writer.
func (t *tree) other(e entry) error { return &skipped{e.header.Name, "is of another kind"} }

// inTheWay is the error of something that exists where an entry must be written.
func inTheWay(info fs.FileInfo) error {
	what := "something that is neither a file nor a directory"
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		what = "a symbolic link, through which nothing is written"
	case info.IsDir():
		what = "a directory"
	case info.Mode().IsRegular():
		what = "a file"
	}
	return &occupied{what}
}

// occupied is the error of inTheWay.
type occupied struct{ what string }

func (o *occupied) Error() string { return "there is " + o.what + " already" }

// skippedFor makes the error about one entry only, if what is in its place is.
func skippedFor(e entry, err error) error {
	if o, ok := errors.AsType[*occupied](err); ok {
		return &skipped{e.header.Name, "isn't written: " + o.Error()}
	}
	return err
}
