package diskusage

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

const (
	emptyDirKind = "kubernetes.io~empty-dir"
	hostsFile    = "etc-hosts"
	// maxMoves is how often the files of a pod are counted again at once after a directory was moved.
	maxMoves = 3
)

// otherKinds are the volumes besides emptyDirs whose files podexecd writes to the disk.
var otherKinds = []string{"kubernetes.io~configmap", "kubernetes.io~secret", "kubernetes.io~projected", "kubernetes.io~downward-api"}

// count counts the files of one pod.
type count struct {
	podsDir, logsDir string
	pod              *v1.Pod
	// tick is called after every few files with all that was found so far. Its error ends the count.
	tick   func(files int, sofar Figure) error
	linked linked
}

// run counts all files of the pod.
func (c *count) run() *Usage {
	var u *Usage
	for range maxMoves {
		u = &Usage{EmptyDirs: map[string]Figure{}, Others: map[string]Figure{}, Logs: map[string]Figure{}, Messages: map[string]Figure{}}
		u.Err = c.all(u)
		c.linked.reset()
		if !errors.Is(u.Err, errMoved) {
			break
		}
	}
	for _, own := range []error{errTooManyFiles, errTooDeep, errTooLong} {
		u.Uncountable = u.Uncountable || errors.Is(u.Err, own)
	}
	return u
}

// part is a directory whose entries are named after volumes or containers.
type part struct {
	what  string
	into  map[string]Figure
	names map[string]bool
	root  string
	path  []string
	// readOnly is set if no container can write there.
	readOnly bool
}

func (c *count) parts(u *Usage) []part {
	uid := string(c.pod.UID)
	volumes, containers := volumesOf(c.pod), containersOf(c.pod)
	all := []part{{what: "emptyDirs", into: u.EmptyDirs, names: volumes, root: c.podsDir, path: []string{uid, "volumes", emptyDirKind}}}
	for _, kind := range otherKinds {
		all = append(all, part{what: "volumes", into: u.Others, names: volumes, root: c.podsDir, path: []string{uid, "volumes", kind}, readOnly: true})
	}
	logs := filepath.Base(podmeta.LogDir(c.logsDir, c.pod.Namespace, c.pod.Name, c.pod.UID))
	return append(all,
		part{what: "termination messages", into: u.Messages, names: containers, root: c.podsDir, path: []string{uid, "containers"}},
		part{what: "logs", into: u.Logs, names: containers, root: c.logsDir, path: []string{logs}})
}

// all counts all parts. A failure in one part doesn't keep the others from being counted, unless it ends the count.
func (c *count) all(u *Usage) error {
	var errs []error
	sofar, err := c.hosts()
	u.Hosts, errs = sofar, append(errs, err)
	var readOnly Figure
	w := &walk{linked: &c.linked, tick: func(files int) error { return c.tick(files, sofar) }}
	for _, p := range c.parts(u) {
		if w.total = &sofar; p.readOnly {
			w.total = &readOnly
		}
		err := w.part(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.what, err))
		}
		if w.ended {
			break
		}
	}
	return errors.Join(errs...)
}

// part counts the entries of a part by their names.
func (w *walk) part(p part) error {
	dir, err := openPath(p.root, p.path)
	if gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the directory: %w", err)
	}
	found := map[string]*Figure{}
	w.of = func(name string) *Figure {
		counts, known := p.names[name]
		if known && !counts {
			return nil
		}
		if !known {
			// Names that aren't the pod's are counted together: there can be any number of them.
			name = ""
		}
		if found[name] == nil {
			found[name] = &Figure{}
		}
		return found[name]
	}
	err = w.count(dir)
	for name, f := range found {
		sum := p.into[name]
		sum.add(*f)
		p.into[name] = sum
	}
	return err
}

// hosts counts the pod's hosts file.
func (c *count) hosts() (Figure, error) {
	dir, err := openPath(c.podsDir, []string{string(c.pod.UID)})
	if gone(err) {
		return Figure{}, nil
	}
	if err != nil {
		return Figure{}, fmt.Errorf("open the pod's directory: %w", err)
	}
	defer func() { _ = unix.Close(dir) }()
	var st unix.Statx_t
	err = stat(dir, hostsFile, &st)
	switch {
	case gone(err):
		return Figure{}, nil
	case err != nil:
		return Figure{}, fmt.Errorf("look at the hosts file: %w", err)
	}
	return Figure{bytesOf(&st), 1}, nil
}

// openPath opens a directory below root through its names, none of which may be a link. Root itself may be one.
func openPath(root string, names []string) (int, error) {
	fd, err := unix.Open(root, openFlags&^unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, err
	}
	for _, name := range names {
		next, err := openAt(fd, name)
		_ = unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// volumesOf returns the names of the pod's volumes, with false for volumes in memory.
func volumesOf(pod *v1.Pod) map[string]bool {
	names := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		names[v.Name] = v.EmptyDir == nil || v.EmptyDir.Medium == v1.StorageMediumDefault
	}
	return names
}

// containersOf returns the names of the pod's containers of every kind.
func containersOf(pod *v1.Pod) map[string]bool {
	names := map[string]bool{}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			names[list[i].Name] = true
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		names[pod.Spec.EphemeralContainers[i].Name] = true
	}
	return names
}
