package revision

import (
	"encoding/json"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// encoded holds a pod's messages, each made when it is first asked for.
type encoded struct {
	json, protobuf, reference, removed message
}

type message struct {
	once sync.Once
	msg  *podconfigv1.Pod
	size int
	err  error
}

func (m *message) get(build func() (*podconfigv1.Pod, error)) (*podconfigv1.Pod, int, error) {
	m.once.Do(func() {
		if m.msg, m.err = build(); m.err == nil {
			m.size = proto.Size(m.msg)
		}
	})
	return m.msg, m.size, m.err
}

// Message is the pod as a protobuf message in the given format, and its size in bytes. The message is shared: callers must
// not change it. An unspecified format means JSON.
func (p *Pod) Message(format podconfigv1.PodFormat) (*podconfigv1.Pod, int, error) {
	switch format {
	case podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED, podconfigv1.PodFormat_POD_FORMAT_JSON:
		return p.json.get(p.encodeJSON)
	case podconfigv1.PodFormat_POD_FORMAT_PROTOBUF:
		return p.protobuf.get(p.encodeProtobuf)
	case podconfigv1.PodFormat_POD_FORMAT_REFERENCE:
		return p.reference.get(func() (*podconfigv1.Pod, error) { return p.header(), nil })
	default:
		return nil, 0, fmt.Errorf("pod format %d isn't known", format)
	}
}

// Removed is the message for a REMOVE: reference and digests, whatever the format.
func (p *Pod) Removed() (*podconfigv1.Pod, int, error) {
	return p.removed.get(func() (*podconfigv1.Pod, error) {
		m := p.header()
		m.Stale = false
		return m, nil
	})
}

func (p *Pod) header() *podconfigv1.Pod {
	return &podconfigv1.Pod{
		Ref:          &podconfigv1.PodRef{Uid: string(p.Object.UID), Namespace: p.Object.Namespace, Name: p.Object.Name},
		Source:       p.Source,
		Stale:        p.Stale,
		SpecDigest:   p.SpecDigest,
		StatusDigest: p.StatusDigest,
	}
}

func (p *Pod) encodeJSON() (*podconfigv1.Pod, error) {
	obj := p.Object.DeepCopy()
	obj.APIVersion, obj.Kind = "v1", "Pod"
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode pod %s as JSON: %w", p, err)
	}
	content := &structpb.Struct{}
	if err := content.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("encode pod %s as JSON: %w", p, err)
	}
	m := p.header()
	m.Content = &podconfigv1.Pod_Json{Json: content}
	return m, nil
}

func (p *Pod) encodeProtobuf() (*podconfigv1.Pod, error) {
	data, err := p.Object.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode pod %s as protobuf: %w", p, err)
	}
	m := p.header()
	m.Content = &podconfigv1.Pod_Protobuf{Protobuf: data}
	return m, nil
}
