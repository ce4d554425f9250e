package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/clusteruid"
)

// confirmedFor is how long a check of the cluster counts for requests of objects on connections from before it.
const confirmedFor = time.Minute

// identityError means that the API server isn't shown to be of the cluster that the pods are from.
type identityError struct{ text string }

func (e *identityError) Error() string { return e.text }

// identity checks that the API server is of one cluster: the pinned one, or the stored one, or else the first one that
// it was read from. It is safe for concurrent use.
type identity struct {
	// get reads the UID, see clusteruid.Get.
	get func(context.Context) (types.UID, error)
	// dials returns how many connections were made so far.
	dials func() uint64
	// address is the API server's, and pinned is Config.ClusterUID.
	address string
	pinned  types.UID
	// known is Config.Known.
	known func() []types.UID
	// positions is Config.Positions.
	positions func() position.Positions
	record    record
	clock     clock.PassiveClock
	log       *slog.Logger

	// checking holds a token while a check is made.
	checking chan struct{}

	mu sync.Mutex
	// begun is how many checks were begun; last is the number of the last one that has ended, and result its result.
	begun, last uint64
	result      error
	// cluster is the UID that answers must come from; empty: not known yet. loaded: the record was read.
	cluster types.UID
	loaded  bool
	// dialed and until are for which connections, and how long, the last check counts.
	dialed uint64
	until  time.Time
	// hidden is set if the server refuses to show its UID.
	hidden bool
	// unknown is what was logged last. unstored: it was logged that the UID can't be stored.
	unknown  string
	unstored bool
	// offered is the UID of another cluster that was refused last; empty after a check that was passed. intended is the one
	// that an administrator has accepted.
	offered, intended types.UID
	// proven are the UIDs of the pods that were known before the last check that was passed, or before the first one: no
	// other cluster's are among them.
	proven []types.UID
	// refusals counts the checks that another cluster has answered, and the changes of the lineage.
	refusals uint64
	// line is the lineage of the cluster that was accepted last.
	line lineage
	// before are the positions from before the start, until a cluster is accepted.
	before position.Positions
	// watches are what ends the open watches, by their numbers; watched is the last number.
	watches map[uint64]context.CancelFunc
	watched uint64
}

// newIdentity makes an identity ready of which the fields are set that don't change.
func newIdentity(i *identity) *identity {
	i.checking = make(chan struct{}, 1)
	i.cluster = i.pinned
	i.watches = map[uint64]context.CancelFunc{}
	return i
}

// confirm returns nil if an answer that was received before the call is of the cluster, as far as the server shows that:
// the check begins after the answer. same reports whether the answer has one of these pods, which only the cluster can
// have; nil means that it has none.
func (i *identity) confirm(ctx context.Context, same func(pods []types.UID) bool) error {
	i.mu.Lock()
	received := i.begun
	i.mu.Unlock()
	select {
	case i.checking <- struct{}{}:
		defer func() { <-i.checking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	i.mu.Lock()
	if i.last > received && (i.result == nil || same == nil) {
		defer i.mu.Unlock()
		return i.result // Another caller's check began after the answer, too.
	}
	i.begun++
	number, dialed := i.begun, i.dials()
	i.mu.Unlock()
	known := i.known()
	uid, err := i.get(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.loaded {
		i.proven = known
	}
	i.last, i.result = number, i.judge(uid, err, same)
	var refused *identityError
	switch {
	case i.result == nil:
		i.dialed, i.until, i.proven = dialed, i.clock.Now().Add(confirmedFor), known
	case errors.As(i.result, &refused):
		i.until = time.Time{}
		i.reread() // Open watches may be of the other cluster as well.
	}
	return i.result
}

// confirmTwice is confirm with two checks, one after the other, if the server shows its UID: of a proxy that sends requests
// to two clusters in turn, one check reaches the other cluster.
func (i *identity) confirmTwice(ctx context.Context, same func(pods []types.UID) bool) error {
	if err := i.confirm(ctx, same); err != nil {
		return err
	}
	if uid, _ := i.current(); uid == "" {
		return nil
	}
	return i.confirm(ctx, same)
}

// recent is confirm without a request, if a check counts for the connection of the answer.
func (i *identity) recent(ctx context.Context) error {
	i.mu.Lock()
	counts := i.dials() == i.dialed && i.clock.Now().Before(i.until)
	i.mu.Unlock()
	if counts {
		return nil
	}
	return i.confirm(ctx, nil)
}

// judge returns whether a server that shows this UID, or an error, is of the cluster. The caller holds the lock, here
// and below.
func (i *identity) judge(uid types.UID, err error, same func([]types.UID) bool) error {
	if loadErr := i.load(); loadErr != nil {
		return loadErr
	}
	i.hidden = isForbidden(err)
	switch {
	case errors.Is(err, clusteruid.ErrUnknown) && (i.cluster == "" || i.pinned == "" && i.record.gone()):
		if i.cluster != "" {
			i.cluster = ""
			i.reread()
		}
		if i.unknown != err.Error() {
			i.unknown = err.Error()
			i.log.Info("the API server doesn't show which cluster it is of; its pods are used without that check", "error", err)
		}
		return nil
	case errors.Is(err, clusteruid.ErrUnknown):
		text := fmt.Sprintf("the API server at %s doesn't show whether it is still of the cluster %s: %v; its pods are kept", i.address, i.cluster, err)
		if i.pinned == "" {
			text += "; if that is intended, " + i.record.remedy("")
		}
		return &identityError{text}
	case errors.Is(err, clusteruid.ErrInvalid):
		return &identityError{fmt.Sprintf("the API server at %s doesn't show which cluster it is of: %v; its pods are kept", i.address, err)}
	case err != nil:
		return err
	case i.cluster == "", uid == i.cluster:
	case i.pinned != "":
		return &identityError{fmt.Sprintf("the API server at %s is of the cluster %s, and not of %s, which is configured; its pods are kept",
			i.address, uid, i.pinned)}
	case uid == i.intended:
		i.log.Warn("the API server is of another cluster, and its pods are used: an administrator has accepted it",
			"cluster", uid, "before", i.cluster)
	case i.record.gone():
		i.log.Warn("the API server is of another cluster, and its pods are used: the stored UID was removed",
			"cluster", uid, "before", i.cluster)
	case same != nil && same(i.proven):
		i.log.Warn("Service default/kubernetes was made again: the API server has pods that are known; the new UID is stored",
			"cluster", uid, "before", i.cluster)
	default:
		i.offered = uid
		return &identityError{fmt.Sprintf("the API server at %s is of another cluster, %s, and not of %s; the pods from there are kept, "+
			"and nothing is removed or added; if the change is intended, run: podctl sources accept api; or %s",
			i.address, uid, i.cluster, i.record.remedy(uid))}
	}
	i.offered, i.intended = "", ""
	i.accept(uid)
	return nil
}

// isForbidden reports whether the server refuses to show its UID.
func isForbidden(err error) bool {
	return errors.Is(err, clusteruid.ErrUnknown) && apierrors.IsForbidden(err)
}

// load reads the record, once. A record that can't be read is an error until it can be, or is removed.
func (i *identity) load() error {
	if i.loaded {
		return nil
	}
	stored, err := i.record.read()
	if err != nil && i.pinned == "" {
		return &identityError{fmt.Sprintf("the UID of the cluster that the pods are from can't be read: %v; the pods are kept; "+
			"remove the file if the API server at %s is the right one", err, i.address)}
	}
	i.loaded, i.cluster = true, cmp.Or(i.pinned, stored)
	i.line, i.before = lineage{stored, i.record.epoch, i.record.replaced}, i.positions()
	return nil
}

// accept makes uid the cluster's, and stores it if it isn't stored yet.
func (i *identity) accept(uid types.UID) {
	if i.cluster == "" {
		i.log.Info("the cluster is known by the UID of its Service default/kubernetes", "cluster", uid)
	}
	i.follow(uid)
	i.cluster, i.unknown = uid, ""
	i.store()
}

// store stores the lineage, if it isn't stored yet.
func (i *identity) store() {
	err := i.record.write(i.line, i.address)
	switch {
	case err == nil:
		i.unstored = false
	case !i.unstored:
		i.unstored = true
		i.log.Error("the cluster's UID can't be stored; it is forgotten at the next start", "cluster", i.line.cluster, "error", err)
	}
}

// watching has end called, which ends ctx, when another cluster answers before ctx has ended.
func (i *identity) watching(ctx context.Context, end context.CancelFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.watched++
	number := i.watched
	i.watches[number] = end
	context.AfterFunc(ctx, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.watches, number)
	})
}

// refused returns how many checks another cluster has answered.
func (i *identity) refused() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.refusals
}

// current returns the cluster's UID; empty: it isn't known. shown reports whether the server shows it, as far as known.
func (i *identity) current() (uid types.UID, shown bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.cluster, !i.hidden
}
