package pullprogress

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/execsvc/cri/containerd"
)

// place is a repository, as the labels of blobs have it.
type place struct{ host, path string }

// placeOf returns the place of a repository.
func placeOf(repository string) (p place, ok bool) {
	registry, path, ok := strings.Cut(repository, "/")
	// As containerd does, so that the host of [::1]:5000 is the same.
	u, err := url.Parse("dummy://" + registry)
	if !ok || err != nil || u.Hostname() == "" {
		return place{}, false
	}
	return place{u.Hostname(), path}, true
}

// group are the pulls of one repository.
type group struct {
	// names are those of the images, since is when the first pull began.
	names []string
	since time.Time
	// found are the digests of manifests, as of the time listed. complete is set if all of their layers are complete.
	found    []string
	listed   time.Time
	complete bool
}

// regroup returns the groups of the pulls. A group whose pulls are the same as before is kept: otherwise its manifests are
// searched again.
func regroup(before map[place]*group, pulls []Pull) map[place]*group {
	groups := map[place]*group{}
	for _, pull := range pulls {
		at, ok := placeOf(pull.Repository)
		if !ok {
			continue
		}
		g := groups[at]
		if g == nil {
			g = &group{since: pull.Started}
			groups[at] = g
		}
		if pull.Started.Before(g.since) {
			g.since = pull.Started
		}
		if !slices.Contains(g.names, pull.Name) {
			g.names = append(g.names, pull.Name)
		}
	}
	for at, g := range groups {
		slices.Sort(g.names)
		if old := before[at]; old != nil && old.since.Equal(g.since) && slices.Equal(old.names, g.names) {
			groups[at] = old
		}
	}
	return groups
}

// search reports whether the group's manifests have to be searched now: less often the longer the pulls run. With a complete
// one for each name, the runtime unpacks, or a manifest is that of another pull, and the right one isn't there yet.
func (g *group) search(now time.Time) bool {
	return (len(g.found) < len(g.names) || g.complete) && now.Sub(g.listed) >= min(now.Sub(g.since)/4, longestWait)
}

// sight is what was last found of a layer.
type sight struct {
	complete bool
	// at is when it was looked for. Zero: never.
	at time.Time
}

// reading is one reading of the store.
type reading struct {
	*Reader
	arrived map[string]int64
	// reads and looks are how many manifests and layers may still be asked for, for so many groups.
	reads, looks, groups int
	now                  time.Time
	// manifests and seen are what the Reader keeps after the reading.
	manifests map[string]manifest
	seen      map[string]sight
}

// group returns the progress of a group. Nil: it isn't known.
func (s *reading) group(ctx context.Context, at place, g *group) (*Progress, error) {
	if g.search(s.now) {
		found, err := s.cfg.Store.Manifests(ctx, at.host, at.path, g.since, s.arrived)
		if err != nil {
			return nil, err
		}
		if len(found) > maxFound {
			found = nil
		}
		g.found, g.listed = found, s.now
	}
	var all []manifest
	for _, digest := range g.found {
		m, err := s.manifest(ctx, digest)
		if status.Code(err) == codes.NotFound {
			// The pull that it was of has failed.
			g.found = nil
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if m != nil {
			all = append(all, m)
		}
	}
	if len(all) == 0 || len(all) < len(g.found) {
		return nil, nil
	}
	if err := s.look(ctx, all); err != nil {
		return nil, err
	}
	has := func(digest string) bool { return s.seen[digest].complete }
	p := progress(running(all, len(g.names), has), has, s.arrived)
	p.Partial = len(all) < len(g.names)
	g.complete = p.DoneLayers == p.TotalLayers
	return &p, nil
}

// running returns the manifests of the pulls that still run, if there are more manifests than pulls: another pull of the
// repository has ended meanwhile, and the layers of its manifest are complete.
func running(all []manifest, pulls int, has func(digest string) bool) []manifest {
	out := slices.Clone(all)
	for i := 0; i < len(out) && len(out) > pulls; {
		if slices.ContainsFunc(out[i], func(l layer) bool { return !has(l.digest) }) {
			i++
		} else {
			out = slices.Delete(out, i, i+1)
		}
	}
	return out
}

// manifest returns a manifest. Nil: it can't be used, or is read another time.
func (s *reading) manifest(ctx context.Context, digest string) (manifest, error) {
	m, known := s.Reader.manifests[digest]
	if !known {
		if s.reads == 0 {
			return nil, nil
		}
		s.reads--
		data, err := s.cfg.Store.Read(ctx, digest, maxManifestBytes)
		switch {
		case errors.Is(err, containerd.ErrTooLarge):
		case err != nil:
			return nil, err
		default:
			if m, err = parseManifest(data); err != nil {
				s.log.Debug("a pull's progress isn't known: its manifest can't be used", "digest", digest, "error", err)
			}
		}
	}
	s.manifests[digest] = m
	return m, nil
}

// look finds out which layers are complete. Each layer that doesn't arrive now is looked for in each reading, as far as looks
// suffice, those first that weren't for the longest time: containerd may remove one that no image has any more, before the
// pull has requested it.
func (s *reading) look(ctx context.Context, all []manifest) error {
	var due []string
	for _, m := range all {
		for _, l := range m {
			if _, done := s.seen[l.digest]; done {
				continue
			}
			before := s.Reader.seen[l.digest]
			if _, arrives := s.arrived[l.digest]; arrives {
				before.complete = false
			} else {
				due = append(due, l.digest)
			}
			s.seen[l.digest] = before
		}
	}
	slices.SortStableFunc(due, func(a, b string) int { return s.seen[a].at.Compare(s.seen[b].at) })
	// The groups that are left have equal shares.
	share := min(len(due), max(s.looks/max(s.groups, 1), 1), s.looks)
	for _, digest := range due[:share] {
		complete, err := s.cfg.Store.Has(ctx, digest)
		if err != nil {
			return err
		}
		s.looks--
		s.seen[digest] = sight{complete, s.now}
	}
	return nil
}
