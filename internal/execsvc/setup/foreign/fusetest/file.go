package fusetest

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// More of the kernel's protocol.
const (
	opLookup  = 1
	opForget  = 2
	opGetAttr = 3
	opOpen    = 14
	opRead    = 15
	opStatFS  = 17
	opRelease = 18
	opFlush   = 25

	opBatchForget = 42

	outHeader = 16
	attrSize  = 88
	rootNode  = 1
	fileNode  = 2
	dirNode   = 3
	fileSize  = 1 << 20
)

// File mounts a Server at dir until the test ends, that has one file of 1 MiB until Hang is called, and an empty directory, Subdirectory.
// It returns the file's path.
func File(t testing.TB, dir string) (s *Server, path string) {
	t.Helper()
	s = serve(t, dir, answer)
	return s, filepath.Join(dir, "file")
}

// Subdirectory is the name of the directory of a File.
const Subdirectory = "directory"

// Hang has the server of a File answer nothing until Answer.
func (s *Server) Hang() { s.hung.Store(true) }

// Answer has the server of a File answer what it has left, and all that follows.
func (s *Server) Answer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hung.Store(false)
	for _, request := range s.left {
		s.reply(request)
	}
	s.left = nil
}

// reply answers a request.
func (s *Server) reply(request []byte) {
	body, errno := s.answer(request)
	// An error is that of a request without an answer, such as FORGET, or of one that was withdrawn.
	_, _ = s.device.Write(reply(request, body, errno))
}

// answer returns the body of the reply to a request, or the number of an error.
func answer(request []byte) (body []byte, errno unix.Errno) {
	node := binary.NativeEndian.Uint64(request[16:])
	switch binary.NativeEndian.Uint32(request[4:]) {
	case opLookup:
		nodes := map[string]uint64{"file\x00": fileNode, Subdirectory + "\x00": dirNode}
		found, ok := nodes[string(request[headerSize:])]
		if !ok {
			return nil, unix.ENOENT
		}
		entry := make([]byte, 40, 40+attrSize)
		binary.NativeEndian.PutUint64(entry, found)
		return append(entry, attributes(found)...), 0
	case opGetAttr:
		return append(make([]byte, 16), attributes(node)...), 0
	case opOpen:
		return make([]byte, 16), 0
	case opRead:
		offset, size := binary.NativeEndian.Uint64(request[headerSize+8:]), binary.NativeEndian.Uint32(request[headerSize+16:])
		return make([]byte, min(uint64(size), fileSize-min(offset, fileSize))), 0
	case opStatFS:
		return make([]byte, 80), 0
	case opRelease, opFlush:
		return nil, 0
	default:
		return nil, unix.ENOSYS
	}
}

// attributes are those of a directory, or of the file. They are valid for no time.
func attributes(node uint64) []byte {
	a := make([]byte, attrSize)
	mode, links := uint32(unix.S_IFREG|0o600), uint32(1)
	if node != fileNode {
		mode, links = unix.S_IFDIR|0o700, 2
	} else {
		binary.NativeEndian.PutUint64(a[8:], fileSize)
	}
	binary.NativeEndian.PutUint64(a, node)
	binary.NativeEndian.PutUint32(a[60:], mode)
	binary.NativeEndian.PutUint32(a[64:], links)
	binary.NativeEndian.PutUint32(a[80:], 4096)
	return a
}

// reply returns the reply to a request.
func reply(request, body []byte, errno unix.Errno) []byte {
	r := make([]byte, outHeader, outHeader+len(body))
	binary.NativeEndian.PutUint32(r, uint32(outHeader+len(body))) //nolint:gosec // At most bufferSize.
	binary.NativeEndian.PutUint32(r[4:], uint32(-int32(errno)))   //nolint:gosec // Errors are small.
	copy(r[8:16], request[8:16])                                  // The request's number.
	return append(r, body...)
}
