package diskusage

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// buffer has a part of a directory's entries, as getdents64 writes them. It has no memory before its first use.
type buffer struct {
	data       []byte
	begin, end int
}

func (b *buffer) reset() { b.begin, b.end = 0, 0 }

// fill reads the next part. It reports whether there is one.
func (b *buffer) fill(fd int) (bool, error) {
	if b.data == nil {
		b.data = make([]byte, bufferSize)
	}
	b.reset()
	for {
		n, err := unix.ReadDirent(fd, b.data)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOENT): // The directory was removed.
			return false, nil
		case err != nil:
			return false, err
		}
		b.end = n
		return n > 0, nil
	}
}

// Offsets in a struct linux_dirent64.
const (
	offOffset, lengthOffset, nameOffset = 8, 16, 19
)

// take returns the next entry's name, and where the entries after it start.
func (b *buffer) take() (name string, next int64, ok bool) {
	rest := b.data[b.begin:b.end]
	if len(rest) <= nameOffset {
		return "", 0, false
	}
	length := int(binary.NativeEndian.Uint16(rest[lengthOffset:]))
	if length <= nameOffset || length > len(rest) {
		return "", 0, false
	}
	next = int64(binary.NativeEndian.Uint64(rest[offOffset:])) //nolint:gosec // The kernel has a signed one.
	text, _, _ := bytes.Cut(rest[nameOffset:length], []byte{0})
	b.begin += length
	return string(text), next, true
}
