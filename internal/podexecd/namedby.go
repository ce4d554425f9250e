package podexecd

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
)

var (
	// errUnknownPods is the error while the stream hasn't sent all.
	errUnknownPods = errors.New("podconfigd hasn't sent all pods and claims yet")
	// errDisconnected is the error without a connection: pods and claims may have come since.
	errDisconnected = errors.New("there is no connection to podconfigd, which may have new pods and claims")
)

// namedBy returns the claim or the pod of the stream that names a volume of static pods' claims, for messages; empty: none
// does. It is an error if not all of them are known.
func (n *node) namedBy(c directory.Claim) (string, error) {
	return namer{claims: n.objects.Claims, pods: n.board.All, unready: n.unreadySources, connected: n.stream.Connected}.namedBy(c)
}

// unreadySources returns the sources of which not all pods are known. known is false before the Agent exists.
func (n *node) unreadySources() (unready []string, known bool) {
	agent := n.working.Load()
	if agent == nil {
		return nil, false
	}
	if agent.Settled() {
		return nil, true
	}
	return agent.Unready(), false
}

// namer has what the stream has sent.
type namer struct {
	claims  func() (claims []objects.Ref, known bool)
	pods    func() []podview.Pod
	unready func() (unready []string, known bool)
	// connected reports whether there is a connection to podconfigd.
	connected func() bool
}

func (n namer) namedBy(c directory.Claim) (string, error) {
	// The pods are read afterwards: those that come in between are seen.
	unready, settled := n.unready()
	claims, known := n.claims()
	for _, ref := range claims {
		if ref.Namespace == c.Namespace && ref.Name == c.Name {
			return fmt.Sprintf("claim %s of source %s names it, and a pod refers to that", c, ref.Source), nil
		}
	}
	for _, p := range n.pods() {
		if p.Namespace == c.Namespace && p.Object != nil && podmeta.IsStatic(p.Object) && refersTo(p.Object, c.Name) {
			return fmt.Sprintf("pod %s/%s of source %s refers to the claim", p.Namespace, p.Name, p.Source), nil
		}
	}
	switch {
	case !n.connected():
		return "", errDisconnected
	case known && settled:
		return "", nil
	case len(unready) > 0:
		return "", fmt.Errorf("%w: not ready: %.500s", errUnknownPods, strings.Join(unready, ", "))
	}
	return "", errUnknownPods
}

// refersTo reports whether a pod has a volume of the claim.
func refersTo(pod *v1.Pod, claim string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim {
			return true
		}
	}
	return false
}
