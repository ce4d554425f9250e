package fusetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// The kernel's protocol, as in linux/fuse.h.
const (
	headerSize  = 40
	bufferSize  = 1 << 20
	opInit      = 26
	opInterrupt = 36
	major       = 7
	minor       = 31
	initOutSize = 64
	replySize   = 16 + initOutSize
	// maxAsked bounds the requests of a test.
	maxAsked = 1024
)

// Server is a FUSE file system that answers nothing but the kernel's first request, or, after File, nothing once Hang was called.
type Server struct {
	// Dir is the mount point.
	Dir string

	device *os.File
	group  sync.WaitGroup
	once   sync.Once
	// asked receives for each request that is left without an answer.
	asked chan struct{}
	// answer answers requests until hung is set. Nil: none.
	answer func(request []byte) (body []byte, errno unix.Errno)
	hung   atomic.Bool

	mu sync.Mutex
	// left are the requests to a File that are left without an answer.
	left [][]byte
}

// Hang mounts a Server at dir until the test ends. A process that looks at a path there waits in a system call that a
// signal doesn't end, also not SIGKILL, once Asked has received for it.
func Hang(t testing.TB, dir string) *Server {
	t.Helper()
	return serve(t, dir, nil)
}

// serve mounts a Server.
func serve(t testing.TB, dir string, answer func([]byte) ([]byte, unix.Errno)) *Server {
	t.Helper()
	roottest.Need(t, "mounting")
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		roottest.Able(t, fmt.Errorf("open /dev/fuse: %w", err))
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("fusetest", dir, "fuse", unix.MS_NODEV|unix.MS_NOSUID, options); err != nil {
		_ = unix.Close(fd)
		roottest.Able(t, fmt.Errorf("mount a FUSE file system: %w", err))
	}
	// Before the mount the device can't be polled.
	s := &Server{Dir: dir, device: os.NewFile(uintptr(fd), "/dev/fuse"), asked: make(chan struct{}, maxAsked), answer: answer}
	s.group.Go(s.serve)
	t.Cleanup(func() {
		s.Die()
		for unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil {
		}
	})
	return s
}

// Asked receives once for each system call that waits for the server.
func (s *Server) Asked() <-chan struct{} { return s.asked }

// Die ends the server: all that wait get an error, and each later access is ENOTCONN.
func (s *Server) Die() {
	s.once.Do(func() { s.device.Close() })
	s.group.Wait()
}

// serve reads requests until the device is closed.
func (s *Server) serve() {
	buffer := make([]byte, bufferSize)
	for {
		n, err := s.device.Read(buffer)
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINTR): // The request was withdrawn.
			continue
		case err != nil, n < headerSize:
			return
		}
		switch binary.NativeEndian.Uint32(buffer[4:]) {
		case opInit:
			if _, err := s.device.Write(initReply(buffer)); err != nil {
				return
			}
			continue
		case opInterrupt: // A process that waits has received a signal.
			continue
		}
		if s.answer != nil && s.answers(buffer[:n]) {
			continue
		}
		switch binary.NativeEndian.Uint32(buffer[4:]) {
		case opForget, opBatchForget, opRelease: // No system call waits for it.
			continue
		}
		select {
		case s.asked <- struct{}{}:
		default: // No test has that many.
		}
	}
}

// answers answers a request, unless the server hangs: it keeps the request then.
func (s *Server) answers(request []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hung.Load() {
		if len(s.left) < maxAsked {
			s.left = append(s.left, bytes.Clone(request))
		}
		return false
	}
	s.reply(request)
	return true
}

// initReply returns the answer to the kernel's first request.
func initReply(request []byte) []byte {
	r := make([]byte, replySize)
	binary.NativeEndian.PutUint32(r, replySize)
	copy(r[8:16], request[8:16]) // The request's number.
	binary.NativeEndian.PutUint32(r[16:], major)
	binary.NativeEndian.PutUint32(r[20:], minor)
	binary.NativeEndian.PutUint32(r[36:], 1<<16) // max_write
	return r
}
