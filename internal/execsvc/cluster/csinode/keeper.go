package csinode

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
)

const (
	// settle is how long a driver stays after its end, and leftover how long a driver of before the start may take to
	// register.
	settle, leftover = 10 * time.Second, 10 * time.Minute
	// check is the time between two checks of the objects, which others may change: a node can't watch its CSINode.
	// refusedCheck is the time while the API server refuses a part.
	check, refusedCheck = 10 * time.Minute, time.Minute
	// After a failure the pause doubles from firstPause to lastPause, and up to half of it is added at random.
	firstPause, lastPause = time.Second, 15 * time.Second
	maxJitter             = 0.5
	// floor is the least time between two rounds, and timeout the time limit of one.
	floor, timeout = time.Second, 30 * time.Second
	// After burst rounds there is one each steady, also if a driver's answers change all the time.
	burst, steady = 10, 10 * time.Second
	// tries is the number of attempts in one round at changes that conflict with those of other clients.
	tries = 5
)

// Driver is a registered CSI driver. It must not be changed.
type Driver struct {
	// Name is the driver's name, and NodeID its ID of the node.
	Name, NodeID string
	// Topology are the labels that say where the node is.
	Topology map[string]string
	// MaxVolumes is how many volumes the node can have. Zero: the driver doesn't limit it.
	MaxVolumes int32
}

// Config configures a Keeper.
type Config struct {
	// Client must not limit the rate of calls: there are few.
	Client *apiclient.Client
	// Node is this node's name.
	Node string
	// UID returns the UID of the Node object, or "" while there is none, and a channel that is closed when it has changed.
	UID func() (types.UID, <-chan struct{})
	// Drivers returns the registered drivers, and a channel that is closed when they have changed.
	Drivers func() ([]Driver, <-chan struct{})
	// Period returns how often a driver is asked again how many volumes the node can have; zero: never. PeriodsChanged
	// returns a channel that is closed when a period has changed. Both are nil if no driver is asked again.
	Period         func(driver string) time.Duration
	PeriodsChanged func() <-chan struct{}
	// Refresh asks the driver again. If its answer differs, Drivers returns the new one.
	Refresh func(ctx context.Context, driver string) error
	// Logger receives errors and refusals, once when they begin and once when they end. Nil discards.
	Logger *slog.Logger
}

// Keeper keeps the CSINode. Its fields belong to Run's goroutine, except for periods.
type Keeper struct {
	cfg Config
	log *slog.Logger
	// until is the time up to which leftover drivers stay.
	until time.Time
	// drivers are those that are registered, or were until a moment ago.
	drivers map[string]*known
	// removed are the drivers that have ended, until the objects no longer have them.
	removed map[string]bool
	// refused has the reason for each driver whose part the API server refuses.
	refused map[string]string
	failing string
	kept    *kept
	pace    *rate.Limiter
	group   sync.WaitGroup

	// mu guards periods, which RefreshNow reads too.
	mu      sync.Mutex
	periods map[string]*refreshing
}

// known is a driver, with the time of its end, or zero.
type known struct {
	Driver
	ended time.Time
}

// kept is the input of the last round that succeeded, and when the objects are checked again.
type kept struct {
	uid     types.UID
	drivers []Driver
	again   time.Time
}

// New returns a Keeper that isn't running.
func New(cfg Config) *Keeper {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Period == nil {
		cfg.Period = func(string) time.Duration { return 0 }
	}
	if cfg.PeriodsChanged == nil {
		cfg.PeriodsChanged = func() <-chan struct{} { return nil }
	}
	return &Keeper{
		cfg: cfg, log: cfg.Logger.With("node", cfg.Node), drivers: map[string]*known{}, removed: map[string]bool{}, refused: map[string]string{},
		periods: map[string]*refreshing{}, pace: rate.NewLimiter(rate.Every(steady), burst),
	}
}

// Run keeps the object until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	defer k.group.Wait()
	k.until = time.Now().Add(leftover)
	pauses := newPauses()
	for ctx.Err() == nil {
		uid, replaced := k.cfg.UID()
		registered, changed := k.cfg.Drivers()
		periods := k.cfg.PeriodsChanged()
		k.refresh(ctx, registered)
		next := k.update(registered)
		if uid == "" {
			// There is no Node yet.
			pause(ctx, next, replaced, changed, periods)
			continue
		}
		if again, done := k.isKept(uid); done {
			pause(ctx, min(next, again), replaced, changed, periods)
			continue
		}
		if k.pace.Wait(ctx) != nil {
			return
		}
		err := k.round(ctx, uid)
		if ctx.Err() != nil {
			return
		}
		k.report(err)
		if err != nil {
			pause(ctx, pauses.Step(), replaced)
			continue
		}
		pauses = newPauses()
		pause(ctx, floor)
	}
}

func newPauses() wait.Backoff {
	return wait.Backoff{Duration: firstPause, Factor: 2, Jitter: maxJitter, Steps: 100, Cap: lastPause}
}

// pause waits for d, until one of the channels is closed, or until ctx ends.
func pause(ctx context.Context, d time.Duration, news ...<-chan struct{}) {
	news = append(news, make([]<-chan struct{}, 3)...)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-news[0]:
	case <-news[1]:
	case <-news[2]:
	case <-ctx.Done():
	}
}

// update updates the known drivers, and returns the time until one of them must be removed.
func (k *Keeper) update(registered []Driver) (next time.Duration) {
	now, present := time.Now(), map[string]bool{}
	for _, d := range registered {
		present[d.Name] = true
		k.drivers[d.Name] = &known{Driver: d}
		delete(k.removed, d.Name)
	}
	next = check
	if left := k.until.Sub(now); left > 0 {
		next = min(next, left)
	}
	for name, d := range k.drivers {
		switch {
		case present[name]:
		case d.ended.IsZero():
			d.ended = now
			next = min(next, settle)
		case now.Sub(d.ended) >= settle:
			delete(k.drivers, name)
			delete(k.refused, name)
			k.removed[name] = true
		default:
			next = min(next, settle-now.Sub(d.ended))
		}
	}
	return next
}

// stays reports whether the objects keep what they have of a driver.
func (k *Keeper) stays(name string) bool {
	return k.drivers[name] != nil || !k.removed[name] && time.Now().Before(k.until)
}

// wanted returns the known drivers by name.
func (k *Keeper) wanted() []Driver {
	all := make([]Driver, 0, len(k.drivers))
	for _, d := range k.drivers {
		all = append(all, d.Driver)
	}
	slices.SortFunc(all, func(a, b Driver) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// isKept reports whether the objects have what the last round has written, and nothing else is wanted. again is the time
// until they are checked.
func (k *Keeper) isKept(uid types.UID) (again time.Duration, done bool) {
	if k.kept == nil || k.kept.uid != uid || len(k.removed) > 0 || !reflect.DeepEqual(k.kept.drivers, k.wanted()) {
		return 0, false
	}
	again = time.Until(k.kept.again)
	return again, again > 0
}

// round has the objects have what is wanted.
func (k *Keeper) round(ctx context.Context, uid types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	k.kept = nil
	wanted := k.wanted()
	for try := 1; ; try++ {
		err := k.write(ctx, uid, wanted)
		if err == nil {
			break
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) || try == tries {
			return err
		}
	}
	clear(k.removed)
	again := time.Now().Add(jittered(check))
	if len(k.refused) > 0 {
		again = time.Now().Add(jittered(refusedCheck))
	}
	if past := k.until; time.Now().Before(past) && past.Before(again) {
		again = past
	}
	k.kept = &kept{uid: uid, drivers: wanted, again: again}
	return nil
}

// write makes the changes, from what the API server has now.
func (k *Keeper) write(ctx context.Context, uid types.UID, wanted []Driver) error {
	node, accepted, err := k.mark(ctx, uid, wanted)
	if err != nil {
		return err
	}
	if err := k.enter(ctx, uid, accepted); err != nil {
		return err
	}
	return k.unmark(ctx, node)
}

// jittered returns a time from d to d and a half.
func jittered(d time.Duration) time.Duration {
	return d + rand.N(d/2) //nolint:gosec // It keeps no secret.
}

// names returns the sorted keys.
func names[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
