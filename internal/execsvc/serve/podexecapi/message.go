package podexecapi

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/redact"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func reference(p podview.Pod) *podconfigv1.PodRef {
	return &podconfigv1.PodRef{Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name}
}

// message returns the pod with what the caller may see.
func (v view) message(p podview.Pod, format podconfigv1.PodFormat) (*podexecv1.ObservedPod, error) {
	m := &podexecv1.ObservedPod{
		Ref: reference(p), Source: p.Source, WorkerState: p.State, Desired: p.Desired,
		LastError: v.errorText(p.Err), WaitsFor: valid(p.WaitsFor), Pulls: p.Pulls,
	}
	if !p.Retry.IsZero() {
		m.RetryTime = timestamppb.New(p.Retry)
	}
	if p.Status == nil {
		m.Phase = string(v1.PodPending)
		return m, nil
	}
	m.Phase, m.ChangedTime = string(p.Status.Phase), timestamppb.New(p.Changed)
	return m, addStatus(m, v.audience.Status(p.Status), format)
}

// valid makes a text valid UTF-8: an invalid string would prevent the encoding of the whole response.
func valid(words string) string { return strings.ToValidUTF8(words, "\uFFFD") }

// addStatus adds the status. It takes a redact.Status, so that no status is sent without a decision on its content.
func addStatus(m *podexecv1.ObservedPod, shown redact.Status, format podconfigv1.PodFormat) error {
	s := shown.Object()
	switch format {
	case podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED, podconfigv1.PodFormat_POD_FORMAT_JSON:
		data, err := json.Marshal(s)
		content := &structpb.Struct{}
		if err == nil {
			err = content.UnmarshalJSON(data)
		}
		if err != nil {
			return internal("encode status of %s: %v", m.GetRef().GetName(), err)
		}
		m.Status = &podexecv1.ObservedPod_Json{Json: content}
	case podconfigv1.PodFormat_POD_FORMAT_PROTOBUF:
		data, err := s.Marshal()
		if err != nil {
			return internal("encode status of %s: %v", m.GetRef().GetName(), err)
		}
		m.Status = &podexecv1.ObservedPod_Protobuf{Protobuf: data}
	}
	return nil
}

// checkFormat returns an error for a format of a later version, whether or not there is a status to encode.
func checkFormat(format podconfigv1.PodFormat) error {
	if _, known := podconfigv1.PodFormat_name[int32(format)]; !known {
		return invalidArgument("format: %d isn't known", format)
	}
	return nil
}
