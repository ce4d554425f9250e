package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// maxFile is the limit for one file: cgroup.procs may be long.
const maxFile = 1 << 20

// maxKept is the size up to which a buffer is reused.
const maxKept = 64 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, 8<<10); return &b }}

// Reader reads files beneath one root.
type Reader struct {
	root string
	v2   bool
}

// New returns a Reader of the machine whose /proc and /sys are beneath root; empty: this machine.
func New(root string) *Reader {
	r := &Reader{root: filepath.Join("/", root)} //nolint:gocritic // An empty root is "/".
	var st unix.Stat_t
	r.v2 = unix.Stat(r.path("sys/fs/cgroup/cgroup.controllers"), &st) == nil
	return r
}

func (r *Reader) path(name string) string { return filepath.Join(r.root, name) }

// read calls parse with a file's content, which parse must not keep.
func (r *Reader) read(name string, parse func([]byte)) error {
	fd, err := again(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return gone(name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	buffer := buffers.Get().(*[]byte) //nolint:forcetypeassert // The pool holds nothing else.
	defer func() {
		if len(*buffer) <= maxKept {
			buffers.Put(buffer)
		}
	}()
	have := 0
	for have < maxFile {
		if have == len(*buffer) {
			*buffer = append(*buffer, make([]byte, have)...)
		}
		n, err := again(func() (int, error) { return unix.Read(fd, (*buffer)[have:]) })
		if err != nil {
			return gone(name, err)
		}
		if n <= 0 {
			break
		}
		have += n
	}
	parse((*buffer)[:have])
	return nil
}

func again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// gone returns fs.ErrNotExist if a cgroup or process disappeared after its file was opened.
func gone(name string, err error) error {
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ESRCH) {
		err = fs.ErrNotExist
	}
	return fmt.Errorf("read %s: %w", name, err)
}

// number returns the number in a file; nil if the file or a number doesn't exist. "max" is Unlimited.
func (r *Reader) number(name string) *uint64 {
	var out *uint64
	_ = r.read(name, func(data []byte) { out = parseNumber(bytes.TrimSpace(data)) })
	return out
}

func parseNumber(text []byte) *uint64 {
	if string(text) == "max" {
		return new(uint64(Unlimited))
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// pairs calls found with each line's name and number.
func pairs(data []byte, found func(name []byte, n uint64)) {
	for line := range bytes.Lines(data) {
		name, rest, _ := bytes.Cut(bytes.TrimSpace(line), space)
		rest = bytes.TrimSpace(rest)
		if end := bytes.IndexByte(rest, ' '); end >= 0 {
			rest = rest[:end]
		}
		if n, ok := digits(rest); ok {
			found(name, n)
		}
	}
}

var space = []byte{' '}

// digits is strconv.ParseUint without allocating a string: files have dozens of numbers.
func digits(text []byte) (uint64, bool) {
	var n uint64
	for _, c := range text {
		if c < '0' || c > '9' || n > (math.MaxUint64-9)/10 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, len(text) > 0
}

// less returns a-b, or 0 if that is negative: the two were not read at the same time.
func less(a, b uint64) uint64 { return a - min(a, b) }
