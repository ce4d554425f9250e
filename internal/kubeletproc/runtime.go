package kubeletproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/kubeletconfig/document"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/openfile"
)

const (
	// defaultRuntime is the kubelet's default socket.
	defaultRuntime = "/run/containerd/containerd.sock"
	// processTime bounds the lookups of one process's files: a file system's server may not answer.
	processTime = 2 * time.Second
	// These bound the processes of containers: how many are looked at, the bytes of their configuration files, and how many of
	// them may exceed processTime.
	maxContained, maxContainedBytes, maxStuck = 256, 4 << 20, 4
)

// reader reads the files that processes name. What containers' processes name is bounded in all, and what exceeds the bounds
// doesn't count: a pod could otherwise keep podexecd from starting.
type reader struct {
	// node are the mount namespaces of this process and of the first one: only root of the node has processes in them.
	node []string
	// seen, bytes and stuck count what was read of containers.
	seen, stuck int
	bytes       int64
	// limit is processTime.
	limit time.Duration
}

func newReader(proc string) *reader {
	r := &reader{limit: processTime}
	for _, process := range []string{"self", "1"} {
		if namespace, err := os.Readlink(filepath.Join(proc, process, "ns", "mnt")); err == nil {
			r.node = append(r.node, namespace)
		}
	}
	return r
}

// uses returns how the process uses what is podexecd's: the runtime's socket, or its directory; "": it uses others, or is a
// container's and beyond the bounds. The error is that of a node's own process whose files can't be read in time, or ctx's.
func (r *reader) uses(ctx context.Context, k *kubelet, own owned) (string, error) {
	namespace, err := os.Readlink(filepath.Join(k.dir, "ns", "mnt"))
	contained := err != nil || !slices.Contains(r.node, namespace)
	limit := int64(document.MaxSize)
	if contained {
		if r.seen++; r.seen > maxContained || r.stuck >= maxStuck {
			return "", nil
		}
		limit = min(limit, maxContainedBytes-r.bytes)
	}
	var result used
	err = r.within(ctx, func(ctx context.Context) used { return k.used(ctx, own, limit) }, &result)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil && contained:
		r.stuck++
		return "", nil
	case err != nil:
		return "", err
	}
	if contained {
		r.bytes += result.read
	}
	return result.why, nil
}

// within stores the result of f, or returns an error at the end of the time. f then goes on until its system call returns,
// which can't be interrupted.
func (r *reader) within(ctx context.Context, f func(context.Context) used, result *used) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limit, fmt.Errorf("its files can't be read within %v", r.limit))
	defer cancel()
	done := make(chan used, 1)
	go func() { done <- f(ctx) }()
	select {
	case *result = <-done:
	case <-ctx.Done():
	}
	// A result after that may be of a file that wasn't read to its end.
	return context.Cause(ctx)
}

// owned is what a process must not share with podexecd. Nil: there is none.
type owned struct{ runtime, dir *unix.Stat_t }

// stat returns what a path leads to; nil: nothing.
func stat(path string) *unix.Stat_t {
	result := new(unix.Stat_t)
	if path == "" || unix.Stat(path, result) != nil {
		return nil
	}
	return result
}

// used is how the process uses what is podexecd's, and how many bytes were read to determine that.
type used struct {
	why  string
	read int64
}

// used reads at most limit bytes of the process's configuration file.
func (k *kubelet) used(ctx context.Context, own owned, limit int64) (result used) {
	named, ok := k.flags()
	if !ok {
		return used{}
	}
	if own.dir != nil && k.same(named.dir, own.dir) {
		return used{why: "it uses the directory " + named.dir}
	}
	if own.runtime == nil {
		return used{}
	}
	socket, read, ok := k.socket(ctx, named, limit)
	if ok && k.same(socket, own.runtime) {
		result.why = "it uses the container runtime " + socket
	}
	result.read = read
	return result
}

// named are the values of a process's flags. dir is absolute.
type named struct{ endpoint, config, dir string }

// flags returns the values of the process's flags.
func (k *kubelet) flags() (n named, ok bool) {
	flags := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.StringVar(&n.endpoint, "container-runtime-endpoint", "", "")
	flags.StringVar(&n.config, "config", "", "")
	flags.StringVar(&n.dir, "root-dir", kubeletdir.Default, "")
	if err := flags.Parse(k.arguments[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return named{}, false
	}
	if !path.IsAbs(n.dir) {
		if n.dir, ok = k.within(n.dir); !ok {
			n.dir = kubeletdir.Default
		}
	}
	return n, true
}

// within returns a relative path as an absolute one, by the process's working directory.
func (k *kubelet) within(name string) (string, bool) {
	cwd, err := os.Readlink(filepath.Join(k.dir, "cwd"))
	return path.Join(cwd, name), err == nil
}

// socket returns the path of the runtime's socket by the flags, or else by the configuration file, and how many bytes of that
// were read.
func (k *kubelet) socket(ctx context.Context, n named, limit int64) (socket string, read int64, ok bool) {
	endpoint := n.endpoint
	if endpoint == "" && n.config != "" {
		endpoint, read = k.configured(ctx, n.config, limit)
	}
	if endpoint == "" {
		return defaultRuntime, read, true
	}
	socket = strings.TrimPrefix(strings.TrimPrefix(endpoint, "unix://"), "unix:")
	return socket, read, path.IsAbs(socket)
}

// configured returns the endpoint of a configuration file, and how many bytes were read; "" if the file has none, is larger
// than limit, or can't be read.
func (k *kubelet) configured(ctx context.Context, config string, limit int64) (endpoint string, read int64) {
	if !path.IsAbs(config) {
		var ok bool
		if config, ok = k.within(config); !ok {
			return "", 0
		}
	}
	fd, err := k.lookup(config)
	if err != nil {
		return "", 0
	}
	defer func() { _ = unix.Close(fd) }()
	file, err := openfile.Reopen(fd, config, unix.O_RDONLY)
	if err != nil {
		return "", 0
	}
	defer file.Close()
	data, err := openfile.ReadAll(ctx, file, limit)
	if err != nil {
		// Of a file that is too large, up to limit bytes may have been read.
		return "", limit
	}
	docs, err := kubeletconfig.Parse([]kubeletconfig.File{{Path: config, Data: data}})
	if err != nil {
		return "", int64(len(data))
	}
	merged, err := kubeletconfig.Merge(docs)
	if err != nil {
		return "", int64(len(data))
	}
	return merged.ContainerRuntimeEndpoint, int64(len(data))
}

// lookup opens a path in the process's root, for reference only.
func (k *kubelet) lookup(name string) (int, error) {
	root, err := unix.Open(filepath.Join(k.dir, "root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: k.dir, Err: err}
	}
	defer func() { _ = unix.Close(root) }()
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	return unix.Openat2(root, name, how)
}

// same reports whether the path leads to that socket or directory in the process's root.
func (k *kubelet) same(name string, own *unix.Stat_t) bool {
	fd, err := k.lookup(name)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	return unix.Fstat(fd, &stat) == nil && stat.Dev == own.Dev && stat.Ino == own.Ino
}
