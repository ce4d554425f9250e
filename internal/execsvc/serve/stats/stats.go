package stats

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
	"github.com/podstream/podstream/internal/execsvc/serve/stats/kernel"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// Pods lists the agent's pods with their sandboxes and containers: a *runtime.Runtime.
type Pods interface {
	List(ctx context.Context) ([]*observed.Pod, error)
}

// Board has the desired pods: a *podview.Board.
type Board interface {
	Get(uid types.UID) (podview.Pod, bool)
}

// Runtime has the usage of containers: the container runtime.
type Runtime interface {
	ListPodSandboxStats(context.Context, *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error)
	ListContainerStats(context.Context, *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error)
}

// Images has the file system of images: the runtime's image service.
type Images interface {
	ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// Files counts the files of pods.
type Files interface {
	Counts(ctx context.Context, pods []*v1.Pod, age time.Duration) map[types.UID]diskusage.Usage
}

// Config configures Stats.
type Config struct {
	// Node is the node's name. Capacity and Allocatable are its resources, for Usage; they may be nil.
	Node                  string
	Capacity, Allocatable v1.ResourceList
	Pods                  Pods
	Board                 Board
	Runtime               Runtime
	Images                Images
	// PodsCgroup is the cgroup of all pods: /kubepods, or /kubepods.slice. Empty: none, and all values are from the
	// runtime.
	PodsCgroup string
	// RuntimeCgroup is the cgroup of the container runtime. Empty: unknown, and not reported.
	RuntimeCgroup string
	// RootDir is a directory on the node's file system: --kubelet-dir. LogsDir has a directory for each pod, with its logs.
	RootDir, LogsDir string
	// PodDirs are the places of the pods' directories, with their volumes.
	PodDirs kubeletdir.Pods
	// Machine is the root of the machine's /proc and /sys. Empty: /.
	Machine string
	// Timeout is the time limit of a request; the runtime has three quarters of it. Zero means 8 s: metrics-server waits
	// for 10.
	Timeout time.Duration
	// Files counts the pods' files: a *diskusage.Meter.
	Files Files
	// Volumes has the usage of persistent volumes: a *volumeusage.Meter. Nil: it isn't reported.
	Volumes Volumes
	// Clock measures the age of readings. Nil means the real one.
	Clock clock.PassiveClock
	// Logger receives a message when readings begin to fail and when they are complete again. Nil discards.
	Logger *slog.Logger
}

const (
	// maxAge is the age up to which a reading is reused; diskAge that of the counts of a pod's files.
	maxAge  = time.Second
	diskAge = time.Minute
	// closeTime is how long Close waits for a file that doesn't answer.
	closeTime = time.Second
)

// errClosed is returned after Close.
var errClosed = errors.New("podexecd is about to end")

// Stats takes readings. It is safe for concurrent use.
type Stats struct {
	cfg    Config
	kernel *kernel.Reader
	// topology, identity and own (this process's cgroup) are constant.
	topology kernel.Topology
	identity kernel.Identity
	own      string
	statfs   func(path string) (fileSystem, error)

	brief, whole *shared[*reading]
	disk         *shared[*diskReading]
	processes    *shared[map[string]*kernel.Tasks]
	rates        rates
	// tasksTime and tasksFiles are the constants of these names. Tests change them.
	tasksTime  time.Duration
	tasksFiles int

	ctx      context.Context //nolint:containedctx // The context of all readings.
	cancel   context.CancelFunc
	underway sync.WaitGroup
	// noSandboxStats is the time until which the runtime isn't asked for the stats of sandboxes, which it doesn't
	// support.
	noSandboxStats moment
}

// New returns Stats, which has read only the machine's constant values.
func New(cfg Config) *Stats {
	if cfg.Timeout == 0 {
		cfg.Timeout = 8 * time.Second
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Stats{cfg: cfg, kernel: kernel.New(cfg.Machine), statfs: statfs, tasksTime: tasksTime, tasksFiles: maxTaskFiles}
	s.topology, s.identity, s.own = s.kernel.Topology(), s.kernel.Identity(), s.kernel.Own()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.brief = &shared[*reading]{stats: s, name: "brief", take: func(ctx context.Context) (*reading, error) { return s.read(ctx, true) }}
	s.whole = &shared[*reading]{stats: s, name: "whole", take: func(ctx context.Context) (*reading, error) { return s.read(ctx, false) }}
	s.disk = &shared[*diskReading]{stats: s, name: "disk", take: s.readDisk}
	s.processes = &shared[map[string]*kernel.Tasks]{stats: s, name: "processes", take: s.readTasks}
	return s
}

// Close ends readings under way, and the requests that wait for them. It abandons readings that don't answer.
func (s *Stats) Close() {
	s.cancel()
	ended := make(chan struct{})
	go func() {
		s.underway.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(closeTime):
	}
}

// usage returns a reading that is at most a second old. With an error it has all readable values; nil if there are
// none.
func (s *Stats) usage(ctx context.Context, brief bool) (*reading, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if s.ctx.Err() != nil {
		return nil, errClosed
	}
	// A whole reading can replace a brief one.
	if r, fresh, err := s.whole.known(maxAge); fresh {
		return r, err
	}
	if brief {
		return s.brief.get(ctx, maxAge)
	}
	return s.whole.get(ctx, maxAge)
}

// fileSystem is a file system's usage, in bytes and files.
type fileSystem struct {
	// device is its disk's number, as in 254:0.
	device                                   string
	bytes, free, available, files, filesFree uint64
}

func statfs(path string) (fileSystem, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fileSystem{}, err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return fileSystem{}, err
	}
	unit := uint64(fs.Frsize) //nolint:gosec // A size.
	return fileSystem{deviceOf(st.Dev), fs.Blocks * unit, fs.Bfree * unit, fs.Bavail * unit, fs.Files, fs.Ffree}, nil
}
