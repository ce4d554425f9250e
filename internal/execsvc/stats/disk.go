package stats

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

const (
	// patience is how long a request waits for files to be counted. Then it gets what is known.
	patience = time.Second
	// restFactor is how many times longer nothing is counted than it took: a tenth of the time, at most, goes to it.
	restFactor = 9
	// blockSize is the unit of stat's st_blocks, whatever the file system's.
	blockSize = 512
)

// diskReading is what pods have on disk. Nobody changes one.
type diskReading struct{ pods map[types.UID]podDisk }

// podDisk is what one has there.
type podDisk struct {
	volumes []namedVolume
	// logs are by container; rest is what else is among the logs, and the pod's /etc/hosts.
	logs map[string]*volume
	rest []*volume
}

type namedVolume struct {
	*volume
	name string
}

// diskUsage is what is known of it, which may be nothing while the first count takes long.
func (s *Stats) diskUsage(ctx context.Context) *diskReading {
	age := diskAge
	if last, fresh, _ := s.disk.known(age); fresh {
		return last
	}
	s.disk.mu.Lock()
	last, age := s.disk.last, max(age, restFactor*s.disk.took)
	s.disk.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if r, err := s.disk.get(ctx, age); err == nil {
		return r
	}
	if last == nil {
		return &diskReading{}
	}
	return last
}

// readDisk counts what is in the directories of pods.
func (s *Stats) readDisk(ctx context.Context) (*diskReading, error) {
	r := &diskReading{pods: map[types.UID]podDisk{}}
	entries, err := os.ReadDir(s.cfg.PodsDir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, e := range entries {
		uid := types.UID(e.Name())
		shown, ok := s.cfg.Board.Get(uid)
		if ok && shown.Object != nil {
			r.pods[uid] = s.podDisk(ctx, shown.Object)
		}
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
	}
	return r, err
}

func (s *Stats) podDisk(ctx context.Context, pod *v1.Pod) podDisk {
	c := &counter{ctx: ctx, stats: s, left: s.cfg.MaxFiles}
	p := podDisk{logs: map[string]*volume{}}
	dir := filepath.Join(s.cfg.PodsDir, string(pod.UID))
	// Those of hostPath and of images aren't the pod's own.
	for _, kind := range []string{"empty-dir", "configmap", "secret", "projected", "downward-api"} {
		at := filepath.Join(dir, "volumes", "kubernetes.io~"+kind)
		for _, name := range directories(at) {
			v := c.tree(filepath.Join(at, name), kind == "empty-dir" && inMemory(pod, name))
			if v != nil {
				p.volumes = append(p.volumes, namedVolume{v, name})
			}
		}
	}
	slices.SortFunc(p.volumes, func(a, b namedVolume) int { return strings.Compare(a.name, b.name) })
	logs := criconfig.LogDir(s.cfg.LogsDir, pod.Namespace, pod.Name, pod.UID)
	for _, name := range directories(logs) {
		if v := c.tree(filepath.Join(logs, name), false); v != nil {
			p.logs[name] = v
		}
	}
	if info, err := os.Lstat(filepath.Join(dir, "etc-hosts")); err == nil {
		v := c.empty(dir)
		v.add(info)
		p.rest = append(p.rest, v)
	}
	return p
}

// inMemory tells of an emptyDir that has a file system of its own.
func inMemory(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.Name == name && v.EmptyDir != nil && v.EmptyDir.Medium != v1.StorageMediumDefault
	})
}

// directories are the names of those in dir. What isn't there has none.
func directories(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// counter adds up what files take, as du does. A container may change all of it meanwhile: no link is followed, and what goes is passed over.
type counter struct {
	ctx   context.Context //nolint:containedctx // It is that of one pod's count.
	stats *Stats
	// left is how many more files may be looked at.
	left int
}

// empty is the file system that dir is on, and nothing used of it.
func (c *counter) empty(dir string) *volume {
	on, _ := c.stats.statfs(dir)
	return &volume{fileSystem: on, at: c.stats.cfg.Clock.Now(), bytesUsed: new(uint64(0)), inodes: new(uint64(0))}
}

// tree is what a directory takes with all below it that is on the same file system, or all that is used of that; nil if it isn't there.
func (c *counter) tree(dir string, whole bool) *volume {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }()
	v := c.empty(dir)
	if whole {
		*v.bytesUsed, *v.inodes = less(v.bytes, v.free), less(v.files, v.filesFree)
		return v
	}
	t := tally{counter: c, volume: v, several: map[uint64]bool{}}
	if info, err := root.Lstat("."); err == nil {
		t.take(info)
	}
	for dirs := []string{"."}; len(dirs) > 0; {
		at := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		t.entries(root, at, func(name string) { dirs = append(dirs, filepath.Join(at, name)) })
	}
	return v
}

// entriesAtOnce is how many are read of a directory, which may have more than there is memory for.
const entriesAtOnce = 512

// tally counts one tree.
type tally struct {
	*counter
	*volume
	// dev is the file system of the tree; zero before its first file. several are the files of it that have several names.
	dev     uint64
	several map[uint64]bool
}

// entries counts those of a directory, and calls below with the directories among them.
func (t *tally) entries(root *os.Root, at string, below func(name string)) {
	dir, err := root.OpenFile(at, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		// It is gone, or something else by now. The rest still counts.
		return
	}
	defer func() { _ = dir.Close() }()
	for t.left > 0 && t.ctx.Err() == nil {
		entries, err := dir.ReadDir(min(t.left, entriesAtOnce))
		for _, e := range entries {
			if info, err := e.Info(); err == nil && t.take(info) && e.IsDir() {
				below(e.Name())
			}
		}
		if err != nil {
			return
		}
	}
}

// take counts a file, and tells whether what is in it counts too, if it is a directory.
func (t *tally) take(info fs.FileInfo) bool {
	if t.left--; t.left < 0 || t.ctx.Err() != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return false
	case t.dev == 0:
		t.dev = st.Dev
	case st.Dev != t.dev && info.IsDir():
		return false
	case st.Nlink > 1 && !info.IsDir() && t.several[st.Ino]:
		return false
	}
	if st.Nlink > 1 && !info.IsDir() {
		t.several[st.Ino] = true
	}
	t.add(info)
	return true
}

// add counts a file.
func (v *volume) add(info fs.FileInfo) {
	*v.inodes++
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Blocks > 0 && st.Blocks < math.MaxInt64/blockSize {
		*v.bytesUsed += uint64(st.Blocks) * blockSize
	}
}
