package stats

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"github.com/podstream/podstream/internal/execsvc/stats/kernel"
)

// Pods has the pods of this agent with their sandboxes and containers; it is a *runtime.Runtime.
type Pods interface {
	List(ctx context.Context) ([]*observed.Pod, error)
}

// Board has the pods as they are desired; it is a *board.Board.
type Board interface {
	Get(uid types.UID) (board.Pod, bool)
}

// Runtime tells what containers use; it is the container runtime.
type Runtime interface {
	ListPodSandboxStats(context.Context, *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error)
	ListContainerStats(context.Context, *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error)
}

// Images tells where images are; it is the runtime's image service.
type Images interface {
	ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// Config says what is read, and where it is.
type Config struct {
	// Node is the node's name.
	Node    string
	Pods    Pods
	Board   Board
	Runtime Runtime
	Images  Images
	// PodsCgroup is the cgroup of all pods: /kubepods, or /kubepods.slice. Empty: there is none, and the runtime is asked for everything.
	PodsCgroup string
	// RuntimeCgroup is that of the container runtime. Empty: it isn't known, and not told of.
	RuntimeCgroup string
	// RootDir is a directory on the node's file system. PodsDir has a directory for each pod, with its volumes; LogsDir one with its logs.
	RootDir, PodsDir, LogsDir string
	// Machine is where the machine's /proc and /sys are. Empty: /.
	Machine string
	// Timeout is how long a request waits for a reading, and how long the runtime may take. Zero means 8 s: metrics-server waits for 10.
	Timeout time.Duration
	// MaxFiles is how many files of one pod are counted. Zero means a million.
	MaxFiles int
	// Clock is for the age of readings. Nil means the real one.
	Clock clock.PassiveClock
	// Logger gets a line when readings begin to fail and when they are whole again. Nil discards.
	Logger *slog.Logger
}

const (
	// maxAge is how old a reading may be that is given again; diskAge is that of one of files that were counted.
	maxAge  = time.Second
	diskAge = time.Minute
	// closeTime is how long Close waits for a file that doesn't answer.
	closeTime = time.Second
)

// errClosed is what is answered after Close.
var errClosed = errors.New("podexecd is about to end")

// Stats takes readings. It is safe for concurrent use.
type Stats struct {
	cfg    Config
	kernel *kernel.Reader
	// topology, identity and own (this process's cgroup) don't change.
	topology kernel.Topology
	identity kernel.Identity
	own      string
	statfs   func(path string) (fileSystem, error)

	brief, whole *shared[*reading]
	disk         *shared[*diskReading]
	rates        rates

	ctx      context.Context //nolint:containedctx // It is that of all readings.
	cancel   context.CancelFunc
	underway sync.WaitGroup
	// noSandboxStats is until when the runtime isn't asked for the stats of sandboxes, which it doesn't have.
	noSandboxStats moment
}

// New returns Stats that has read nothing yet but what doesn't change of the machine.
func New(cfg Config) *Stats {
	if cfg.Timeout == 0 {
		cfg.Timeout = 8 * time.Second
	}
	if cfg.MaxFiles == 0 {
		cfg.MaxFiles = 1_000_000
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Stats{cfg: cfg, kernel: kernel.New(cfg.Machine), statfs: statfs}
	s.topology, s.identity, s.own = s.kernel.Topology(), s.kernel.Identity(), s.kernel.Own()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.brief = &shared[*reading]{stats: s, name: "brief", take: func(ctx context.Context) (*reading, error) { return s.read(ctx, true) }}
	s.whole = &shared[*reading]{stats: s, name: "whole", take: func(ctx context.Context) (*reading, error) { return s.read(ctx, false) }}
	s.disk = &shared[*diskReading]{stats: s, name: "disk", take: s.readDisk}
	return s
}

// Close ends readings under way, and with them the requests that wait. What doesn't answer is left behind.
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

// usage is a reading that is at most a second old. With an error it has what could be read; nil if that is nothing.
func (s *Stats) usage(ctx context.Context, brief bool) (*reading, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if s.ctx.Err() != nil {
		return nil, errClosed
	}
	// A whole reading serves for a brief one.
	if r, fresh, err := s.whole.known(maxAge); fresh {
		return r, err
	}
	if brief {
		return s.brief.get(ctx, maxAge)
	}
	return s.whole.get(ctx, maxAge)
}

// fileSystem is what is on one, in bytes and files.
type fileSystem struct {
	// device is its disk's numbers, as in 254:0.
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
	unit := uint64(fs.Frsize) //nolint:gosec // It is a size.
	return fileSystem{deviceOf(st.Dev), fs.Blocks * unit, fs.Bfree * unit, fs.Bavail * unit, fs.Files, fs.Ffree}, nil
}
