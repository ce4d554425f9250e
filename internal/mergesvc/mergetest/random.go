package mergetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/manifest"
)

// Random draws the sets of a few sources one after the other, from so few names and UIDs that they often clash.
type Random struct {
	sources []string
	last    map[string][]*manifest.Origin
	second  int64
}

// NewRandom returns a Random for the named sources.
func NewRandom(sources ...string) *Random {
	return &Random{sources: sources, last: map[string][]*manifest.Origin{}}
}

// Draw draws the next set. Often it is nearly the last one of its source: an origin that isn't drawn again keeps its
// pointer, as in real sources; and sometimes the source can't be read.
func (r *Random) Draw(t *rapid.T) manifest.Set {
	r.second++
	set := manifest.Set{Source: rapid.SampledFrom(r.sources).Draw(t, "source"), ReadTime: time.Unix(r.second, 0)}
	if rapid.IntRange(0, 19).Draw(t, "unreadable") == 0 {
		set.Err = errors.New("unreadable")
		return set
	}
	last := r.last[set.Source]
	for _, name := range []string{"a", "b", "c"} {
		i := slices.IndexFunc(last, func(o *manifest.Origin) bool { return o.Name == name })
		switch choice := rapid.IntRange(0, 5).Draw(t, "fate of "+name); {
		case choice < 2 && i >= 0:
			set.Origins = append(set.Origins, last[i])
		case choice < 5:
			set.Origins = append(set.Origins, drawOrigin(t, name))
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "reordered") == 0 {
		slices.Reverse(set.Origins)
	}
	r.last[set.Source] = set.Origins
	return set
}

func drawOrigin(t *rapid.T, name string) *manifest.Origin {
	o := &manifest.Origin{Name: name, Held: rapid.IntRange(0, 4).Draw(t, "held") == 0}
	for n := rapid.IntRange(0, 2).Draw(t, "pods"); n > 0; n-- {
		o.Pods = append(o.Pods, drawPod(t))
	}
	return o
}

func drawPod(t *rapid.T) *manifest.Pod {
	text := fmt.Sprintf("n%d(uid=u%d,image=i%d,phase=p%d", rapid.IntRange(0, 3).Draw(t, "name"),
		rapid.IntRange(0, 5).Draw(t, "uid"), rapid.IntRange(0, 1).Draw(t, "image"), rapid.IntRange(0, 1).Draw(t, "phase"))
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		text += ",deleting=30"
	case 1:
		// A mirror pod has a UID of its own; whether a pod is one never changes.
		text += ",mirror=m,uid=" + rapid.SampledFrom([]string{"m0", "m1"}).Draw(t, "mirror uid")
	}
	p, err := pod(text)
	if err != nil {
		panic(err)
	}
	return p
}
