package adoption

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// offer is a pod of a source.
type offer struct {
	*v1.Pod
	static bool
}

// String names the pod for a reason.
func (o *offer) String() string {
	kind := "the API pod"
	if o.static {
		kind = "the static pod"
	}
	return fmt.Sprintf("%s %s with UID %s", kind, podmeta.LogName(o.Pod), o.UID)
}

// identity is what a running pod and its offer have in common.
type identity struct{ namespace, name, uid string }

func identityOf(pod *v1.Pod) identity { return identity{pod.Namespace, pod.Name, string(pod.UID)} }

// loss is the offer that podconfigd serves in place of another one, and what both claim: "name" or "UID".
type loss struct {
	winner *offer
	static bool
	field  string
}

// claims has the pods that podconfigd serves: of the pods of one name or UID it serves the first one, in the order of its sources
// and of their origins (package merge). A mirror pod has the name of its static pod, and claims its UID only.
type claims struct {
	byUID  map[types.UID]*offer
	byName map[string]*offer
	lost   map[identity]loss
}

// newClaims returns the claims of the pods. podconfigd's default order has files before the API server.
func newClaims(in *Input) claims {
	c := claims{byUID: map[types.UID]*offer{}, byName: map[string]*offer{}, lost: map[identity]loss{}}
	for _, p := range in.Static.Pods {
		c.claim(&offer{Pod: p, static: true})
	}
	// The origins of the API server are by the pods' names. Of two pods of one name the last one counts.
	named := map[string]*v1.Pod{}
	for _, p := range in.API.Pods {
		named[podmeta.LogName(p)] = p
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		c.claim(&offer{Pod: named[name]})
	}
	return c
}

func (c *claims) claim(o *offer) {
	mirror, name := podmeta.IsMirror(o.Pod), podmeta.LogName(o.Pod)
	switch {
	case c.byUID[o.UID] != nil:
		c.lose(o, c.byUID[o.UID], "UID")
		return
	case mirror:
	case c.byName[name] != nil:
		c.lose(o, c.byName[name], "name")
		return
	default:
		c.byName[name] = o
	}
	c.byUID[o.UID] = o
}

func (c *claims) lose(o, winner *offer, field string) {
	if id := identityOf(o.Pod); c.lost[id].winner == nil {
		c.lost[id] = loss{winner: winner, static: o.static, field: field}
	}
}

// served returns the pod that podconfigd serves with the identity of the running pod, or nil.
func (c *claims) served(p *observed.Pod) *v1.Pod {
	o := c.byUID[p.UID]
	if o == nil || podmeta.IsMirror(o.Pod) || o.Namespace != p.Namespace || o.Name != p.Name {
		return nil
	}
	return o.Pod
}
