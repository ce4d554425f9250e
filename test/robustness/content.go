package robustness

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// content is the decoded content of a pod in a message.
type content struct {
	// pod is nil if the message has no content, or err.
	pod          *v1.Pod
	spec, status string
	err          error
}

// content decodes the pod of a message, once.
func (r *Run) content(p *podconfigv1.Pod) content {
	c, ok := r.contents[p]
	if !ok {
		c = decode(p)
		r.contents[p] = c
	}
	return c
}

func decode(p *podconfigv1.Pod) content {
	pod := &v1.Pod{}
	var err error
	switch body := p.GetContent().(type) {
	case *podconfigv1.Pod_Json:
		var text []byte
		if text, err = body.Json.MarshalJSON(); err == nil {
			err = json.Unmarshal(text, pod)
		}
	case *podconfigv1.Pod_Protobuf:
		err = pod.Unmarshal(body.Protobuf)
	default:
		return content{}
	}
	if err != nil {
		return content{err: err}
	}
	c := content{pod: pod}
	if c.spec, c.err = manifest.SpecDigest(pod); c.err == nil {
		c.status, c.err = manifest.StatusDigest(pod)
	}
	return c
}

// full checks that each pod has its content in the requested format, in the version that the digests name.
func (r *Run) full(p *passage) error {
	for _, c := range p.changes {
		if c.pod == nil {
			continue
		}
		if what := r.wrongContent(p, c); what != "" {
			return p.broken("%s of %s: %s", opName(c.op), c.pod.GetRef().GetUid(), what)
		}
	}
	return nil
}

func (r *Run) wrongContent(p *passage, c change) string {
	want := p.stream.Request.GetFormat()
	if c.op == podconfigv1.PodOperation_POD_OPERATION_REMOVE {
		want = podconfigv1.PodFormat_POD_FORMAT_REFERENCE
	}
	var ok bool
	switch want {
	case podconfigv1.PodFormat_POD_FORMAT_REFERENCE:
		ok = c.pod.GetContent() == nil
	case podconfigv1.PodFormat_POD_FORMAT_PROTOBUF:
		ok = c.pod.GetProtobuf() != nil
	default:
		ok = c.pod.GetJson() != nil
	}
	if !ok {
		return fmt.Sprintf("the content is a %T; want it for %s", c.pod.GetContent(), want)
	}
	body, ref := r.content(c.pod), c.pod.GetRef()
	switch {
	case body.err != nil:
		return fmt.Sprintf("the content can't be decoded: %v", body.err)
	case body.pod == nil:
		return ""
	case string(body.pod.UID) != ref.GetUid() || body.pod.Name != ref.GetName() || body.pod.Namespace != ref.GetNamespace():
		return fmt.Sprintf("the content is pod %s %s/%s", body.pod.UID, body.pod.Namespace, body.pod.Name)
	case body.spec != c.pod.GetSpecDigest() || body.status != c.pod.GetStatusDigest():
		return fmt.Sprintf("the content has spec %s and status %s", short(body.spec), short(body.status))
	}
	return ""
}
