package image

import (
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cri/pullprogress"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Pull is a running or queued pull.
type Pull struct {
	Image string
	// Asked is when the pod requested it, Started when the runtime was called; zero: not yet.
	Asked, Started time.Time
	// Progress is how far it is. Nil: it isn't known.
	Progress *pullprogress.Progress
}

// Pulls returns the pulls that a pod waits for, the oldest first, without those that wait for others of the pod. When one
// starts that was returned as waiting, Config.Done is called.
func (p *Puller) Pulls(uid types.UID) []Pull {
	p.mu.Lock()
	defer p.mu.Unlock()
	images := p.pods[uid]
	if images == nil {
		return nil
	}
	var pulls []Pull
	for _, a := range images.asks {
		if a.held {
			continue
		}
		a.shown = a.shown || a.started().IsZero()
		pulls = append(pulls, a.shownPull())
	}
	slices.SortFunc(pulls, func(a, b Pull) int {
		if order := a.Asked.Compare(b.Asked); order != 0 {
			return order
		}
		return strings.Compare(a.Image, b.Image)
	})
	return pulls
}

// Pulling returns the names of all images that are requested, for pods and without, each with its registry and its tag or
// digest.
func (p *Puller) Pulling() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := map[string]bool{}
	for _, images := range p.pods {
		for _, a := range images.asks {
			names[a.ref.full] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// shownPull returns the request as Pulls returns it.
func (a *ask) shownPull() Pull {
	shown := Pull{Image: a.ref.given, Asked: a.asked, Started: a.started()}
	if a.pull != nil {
		shown.Progress = a.pull.progress
	}
	return shown
}

// Message returns the pull as podexecd's readers get it.
func (p Pull) Message() *podexecv1.ImagePull {
	m := &podexecv1.ImagePull{Image: p.Image, AskedTime: timestamppb.New(p.Asked)}
	if !p.Started.IsZero() {
		m.StartedTime = timestamppb.New(p.Started)
	}
	if now := p.Progress; now != nil {
		m.Progress = &podexecv1.PullProgress{DoneBytes: now.DoneBytes, DoneLayers: int32(now.DoneLayers)} //nolint:gosec // Bounded.
		if !now.Partial {
			m.Progress.TotalBytes, m.Progress.TotalLayers = &now.TotalBytes, new(int32(now.TotalLayers)) //nolint:gosec // Bounded.
		}
	}
	return m
}
