package board

import (
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	// maxContents is how many bytes of the desired pods' contents are kept. Of further pods only the references are.
	maxContents = 64 << 20
	// maxPods bounds the pods. podconfigd has the bound of its disk; a page that lists so many is of no use.
	maxPods = 200_000
)

// desiredPod is a pod that podconfigd has.
type desiredPod struct {
	pod  *podconfigv1.Pod // without its content if there is no room for it
	node string
	size int
}

// Content decodes a pod. Nil: it has no content, or one that can't be decoded.
func Content(pod *podconfigv1.Pod) *corev1.Pod {
	content := new(corev1.Pod)
	switch c := pod.GetContent().(type) {
	case *podconfigv1.Pod_Protobuf:
		if content.Unmarshal(c.Protobuf) == nil {
			return content
		}
	case *podconfigv1.Pod_Json:
		if text, err := c.Json.MarshalJSON(); err == nil && unmarshalJSON(text, content) == nil {
			return content
		}
	}
	return nil
}

// asProtobuf returns the pod with its content as protobuf, the only form that podsummary reads.
func asProtobuf(pod *podconfigv1.Pod, content *corev1.Pod) *podconfigv1.Pod {
	if _, ok := pod.GetContent().(*podconfigv1.Pod_Json); !ok || content == nil {
		return pod
	}
	encoded, err := content.Marshal()
	if err != nil {
		return pod
	}
	out := proto.CloneOf(pod)
	out.Content = &podconfigv1.Pod_Protobuf{Protobuf: encoded}
	return out
}

// applyDesired applies ops to the desired pods. The caller holds b.mu.
func (b *Board) applyDesired(ops []*podconfigv1.PodUpdate, now time.Time) {
	changed, nodes := map[string]bool{}, map[string]bool{}
	for _, u := range ops {
		for _, pod := range u.GetPods() {
			uid := pod.GetRef().GetUid()
			changed[uid] = true
			old := b.desired[uid]
			if old != nil {
				b.bytes -= old.size
				b.nodePods[old.node]--
				nodes[old.node] = true
				delete(b.desired, uid)
			}
			if u.GetOp() == podconfigv1.PodOperation_POD_OPERATION_REMOVE {
				continue
			}
			next := b.kept(pod)
			if next == nil {
				continue
			}
			b.desired[uid] = next
			b.bytes += next.size
			b.nodePods[next.node]++
			nodes[next.node] = true
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(changed)) {
		b.show(uid, now)
	}
	for node := range nodes {
		if b.nodePods[node] == 0 {
			delete(b.nodePods, node)
		}
		b.showNode(node)
	}
	b.findGateway()
}

// kept returns what is kept of a pod. Nil: there is no room for it.
func (b *Board) kept(pod *podconfigv1.Pod) *desiredPod {
	if len(b.desired) >= maxPods {
		return nil
	}
	content := Content(pod)
	next := &desiredPod{pod: asProtobuf(pod, content), node: nodeOf(content)}
	if next.size = len(next.pod.GetProtobuf()); b.bytes+next.size > maxContents {
		next.pod = proto.CloneOf(next.pod)
		next.pod.Content, next.size = nil, 0
	}
	return next
}

func nodeOf(content *corev1.Pod) string {
	if content == nil {
		return ""
	}
	return content.Spec.NodeName
}

// opWord returns an op in one word.
func opWord(op podconfigv1.PodOperation) string {
	return strings.TrimPrefix(op.String(), "POD_OPERATION_")
}
