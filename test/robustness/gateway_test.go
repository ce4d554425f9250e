package robustness

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/manifest"
)

// errCutOff is the error of a source that can't read the API server.
var errCutOff = errors.New("the API server can't be read")

// gateway is a podconfigd with a source of its own, file, and a source api that follows the truth. The source behaves like
// that of package apiserver: a consistent list first, then a watch; it stores its cluster and epoch.
type gateway struct {
	*local
	name     string
	gateways *Gateways
	life     *GatewayLife
	// number is that of life.
	number int
	// linked is set while the API server can be read.
	linked bool
	stored gatewayStore
	backup *gatewayStore
	copies int
	// reverted is set when an old copy of the store was put in place.
	reverted bool

	// The rest belongs to one start. moment is that up to which the source has read; -1 before the first list.
	moment           int
	changed, current position.Position
	at               at
	file             []*manifest.Pod
	sets             int64

	mu sync.Mutex
	// requested is the number of the last requested confirmation, taken that of the last list for one and takenAt its
	// moment, and confirmed that of the last complete one.
	requested, taken, confirmed uint64
	takenAt                     int
	// confirmedAt is the resource version of the list for the last complete one.
	confirmedAt string
}

// gatewayStore is what survives a restart: the store's file, and what a test knows of it.
type gatewayStore struct {
	path string
	// moment and position are those of the last revision with changes of pods of the source api, and file the pods of the source
	// file. read is a moment whose pods they are: a pod that the source file displaces may have changed since moment.
	moment   int
	read     int
	position position.Position
	file     []*manifest.Pod
	// cluster, epoch, version and replaced are what the source stores: version is the last one that it has read.
	cluster  string
	epoch    uint64
	version  uint64
	replaced []string
}

func newGateway(name, dir string, gateways *Gateways) *gateway {
	g := &gateway{local: newLocal(dir), name: name, gateways: gateways, linked: true}
	g.confirm = func(source string, _ []string) uint64 {
		if source != apiSource {
			return 0
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.requested = g.taken + 1
		return g.requested
	}
	return g
}

// begin starts it with what is stored.
func (g *gateway) begin(kept bool) error {
	if !kept {
		g.stored = gatewayStore{}
	}
	g.moment, g.file, g.requested, g.taken, g.confirmed, g.confirmedAt = -1, g.stored.file, 0, 0, 0, ""
	g.changed, g.current = g.stored.position, g.stored.position
	var err error
	if g.at, err = g.start([]string{fileSource, apiSource}, kept); err != nil {
		return err
	}
	// The first consumer that comes is beyond the copy. Before, the numbers aren't used again: G7 needs that for cursors
	// that are accepted.
	if g.reverted {
		g.hub.Rewound(math.MaxInt64)
	}
	g.reverted = false
	g.life = &GatewayLife{Name: g.name}
	g.gateways.Lives = append(g.gateways.Lives, g.life)
	g.number = len(g.gateways.Lives)
	g.note(time.Now(), g.stored.read)
	return nil
}

// note records a reading.
func (g *gateway) note(from time.Time, moment int) {
	g.life.Readings = append(g.life.Readings, Reading{
		At: from, Revision: g.at.revision, Moment: moment, Published: g.stored.moment, Position: g.current, File: g.file,
	})
}

// save keeps a copy of what is stored now.
func (g *gateway) save() error {
	kept := g.stored
	g.copies++
	kept.path = filepath.Join(g.dir, fmt.Sprintf("copy%d.db", g.copies))
	g.backup = &kept
	return copyFile(kept.path, g.local.file)
}

// stop kills it.
func (g *gateway) stop() error {
	_, _, err := g.kill(nil, nil)
	return err
}

// revert replaces what is stored by the copy.
func (g *gateway) revert() error {
	g.stored, g.reverted = *g.backup, true
	return copyFile(g.local.file, g.backup.path)
}

// hand gives it a set, and records the reading. moment is that of the pods of the source api.
func (g *gateway) hand(set manifest.Set, moment int) error {
	g.sets++
	set.ReadTime = time.Unix(1_700_000_000+g.sets, 0)
	from, before, had := time.Now(), g.at.revision, g.served()
	var err error
	if g.at, err = g.apply(set); err != nil {
		return err
	}
	if g.at.revision > before {
		g.stored.file, g.stored.read = g.file, moment
		// A name that the source file claims, or no longer does, displaces a pod of the source api, or shows it.
		if set.Source == apiSource || !slices.Equal(had, g.served()) {
			g.stored.moment, g.stored.position = moment, g.changed
		}
	}
	g.note(from, moment)
	return nil
}

// served returns the UIDs of the pods that it serves of the source api, each with the revision at which it appeared.
func (g *gateway) served() (out []string) {
	for _, p := range g.hub.History().State().Pods {
		if p.Source == apiSource {
			out = append(out, fmt.Sprintf("%s@%d", p.UID(), p.Created))
		}
	}
	return out
}

// setFile replaces the pods of the source file.
func (g *gateway) setFile(pods []*manifest.Pod) error {
	g.file = pods
	last := g.life.Readings[len(g.life.Readings)-1]
	return g.hand(manifest.Set{Source: fileSource, Origins: origins(pods)}, last.Moment)
}

// origins returns an origin for each pod.
func origins(pods []*manifest.Pod) []*manifest.Origin {
	var out []*manifest.Origin
	for _, p := range pods {
		out = append(out, &manifest.Origin{Name: p.Namespace + "/" + p.Name, Pods: []*manifest.Pod{p}})
	}
	return out
}

// watch reads the API server up to a moment, or lists it if no watch leads there. bookmark is whether the resource version
// of that moment becomes known.
func (g *gateway) watch(to int, bookmark bool) error {
	truth := g.gateways.Truth
	if !g.linked || g.moment >= 0 && to < g.moment {
		return nil
	}
	if g.moment < 0 || truth.Broken(g.moment, truth.Now()) {
		return g.list()
	}
	if settled := truth.Settled(to); settled > g.moment {
		g.advance(&g.changed, truth.Version(settled))
	}
	if g.current = g.changed; bookmark {
		g.advance(&g.current, truth.Version(to))
	}
	return g.give(to)
}

// advance sets the version of a position, unless it is already later.
func (g *gateway) advance(p *position.Position, version uint64) {
	p.ResourceVersion = strconv.FormatUint(max(version, number(p.ResourceVersion)), 10)
}

// list reads all of the API server. A cluster that isn't the stored one is refused until it is accepted. If the resource
// version is lower than before, the cluster's history went back.
func (g *gateway) list() error {
	truth, now := g.gateways.Truth, g.gateways.Truth.Now()
	if !g.linked {
		return nil
	}
	cluster, version := truth.Cluster(now), truth.Version(now)
	switch {
	case g.stored.cluster == "":
		g.stored.cluster = cluster
	case g.stored.cluster != cluster:
		_, err := g.apply(manifest.Set{Source: apiSource, Err: errCutOff})
		return err
	case version < g.stored.version:
		g.stored.epoch++
		g.stored.version = 0
	}
	g.changed = position.Position{
		Source: apiSource, Cluster: cluster, Epoch: g.stored.epoch, Replaced: g.stored.replaced, ResourceVersion: strconv.FormatUint(version, 10),
	}
	g.current = g.changed
	return g.give(now)
}

// accept confirms that the present cluster replaces all others. former are those.
func (g *gateway) accept(former []string) {
	cluster := g.gateways.Truth.Cluster(g.gateways.Truth.Now())
	if g.stored.cluster != cluster {
		g.stored.cluster, g.stored.epoch, g.stored.version = cluster, 0, 0
	}
	g.stored.replaced = former
	g.moment = -1
}

// give hands over the pods of a moment.
func (g *gateway) give(moment int) error {
	truth := g.gateways.Truth
	g.moment = moment
	g.mu.Lock()
	if g.taken > g.confirmed && moment >= g.takenAt {
		// If no watch leads on from the list for the confirmation, the pods are of a later list.
		if g.confirmed = g.taken; truth.Broken(g.takenAt, moment) {
			g.takenAt = moment
		}
		g.confirmedAt = strconv.FormatUint(truth.Version(g.takenAt), 10)
		g.advance(&g.current, truth.Version(g.takenAt))
	}
	progress := &manifest.Progress{
		Changed: position.Positions{g.changed}, Current: position.Positions{g.current}, Confirmed: g.confirmed, ConfirmedAt: g.confirmedAt,
	}
	g.mu.Unlock()
	g.stored.version = max(g.stored.version, number(g.current.ResourceVersion))
	var pods []*manifest.Pod
	for _, p := range truth.Pods(moment) {
		pods = append(pods, p)
	}
	slices.SortFunc(pods, func(a, b *manifest.Pod) int { return compareNames(a, b) })
	return g.hand(manifest.Set{Source: apiSource, Origins: origins(pods), Progress: progress}, truth.Settled(moment))
}

// take lists the API server for the requested confirmation. It is complete once the watch has come as far.
func (g *gateway) take() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.linked && g.requested > g.taken {
		g.taken, g.takenAt = g.requested, g.gateways.Truth.Now()
	}
}

// catchUp reads all that the API server has, and completes the requested confirmation.
func (g *gateway) catchUp() error {
	g.take()
	return g.watch(g.gateways.Truth.Now(), true)
}
