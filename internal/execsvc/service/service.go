package service

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The bounds of a page.
const (
	defaultPageSize = 500
	maxPageBytes    = 1 << 20
)

// Pod is one pod as the Agent shows it.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	Source          string
	State           podexecv1.WorkerState
	// Desired is false for a pod on its way out.
	Desired bool
	// Err is what the worker's last step failed with.
	Err error
	// Changed is when Status last changed.
	Changed time.Time
	// Status may be nil while nothing has been observed. It isn't changed.
	Status *v1.PodStatus
}

// Server implements podexec.v1.PodExecService.
type Server struct {
	podexecv1.UnimplementedPodExecServiceServer
	node string
	pods func() []Pod
}

// New returns a Server of the node's pods, which the function returns in any order.
func New(node string, pods func() []Pod) *Server { return &Server{node: node, pods: pods} }

// ListPods is part of podexec.v1.PodExecService.
func (s *Server) ListPods(ctx context.Context, req *podexecv1.ListPodsRequest) (*podexecv1.ListPodsResponse, error) {
	pods, err := s.visible(ctx)
	if err != nil {
		return nil, err
	}
	if req.GetPageSize() < 0 {
		return nil, status.Errorf(codes.InvalidArgument, "page_size: is %d", req.GetPageSize())
	}
	if err := checkFormat(req.GetFormat()); err != nil {
		return nil, err
	}
	match, err := matcher(req.GetFilter())
	if err != nil {
		return nil, err
	}
	after, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "page_token: isn't one of podexecd's")
	}
	limit := cmp.Or(int(req.GetPageSize()), defaultPageSize)
	slices.SortFunc(pods, func(a, b Pod) int { return cmp.Compare(a.key(), b.key()) })
	resp := &podexecv1.ListPodsResponse{}
	size, last := 0, ""
	for _, p := range pods {
		if !match(p) || p.key() <= string(after) {
			continue
		}
		m, err := message(p, req.GetFormat())
		if err != nil {
			return nil, err
		}
		n := proto.Size(m)
		if len(resp.Pods) == limit || size > 0 && size+n > maxPageBytes {
			resp.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}
		resp.Pods, size, last = append(resp.Pods, m), size+n, p.key()
	}
	return resp, nil
}

// GetPod is part of podexec.v1.PodExecService.
func (s *Server) GetPod(ctx context.Context, req *podexecv1.GetPodRequest) (*podexecv1.GetPodResponse, error) {
	pods, err := s.visible(ctx)
	if err != nil {
		return nil, err
	}
	ref := req.GetRef()
	if ref.GetUid() == "" && ref.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "ref: needs a uid or a name")
	}
	if err := checkFormat(req.GetFormat()); err != nil {
		return nil, err
	}
	namespace := cmp.Or(ref.GetNamespace(), "default")
	var found *Pod
	for _, p := range pods {
		switch {
		case ref.GetUid() != "" && string(p.UID) == ref.GetUid():
			found = &p
		// Of two incarnations with one name the desired one is meant.
		case ref.GetUid() == "" && p.Namespace == namespace && p.Name == ref.GetName() && (found == nil || p.Desired):
			found = &p
		}
	}
	if found == nil {
		return nil, status.Errorf(codes.NotFound, "there is no pod %s", cmp.Or(ref.GetUid(), namespace+"/"+ref.GetName()))
	}
	m, err := message(*found, req.GetFormat())
	if err != nil {
		return nil, err
	}
	return &podexecv1.GetPodResponse{Pod: m}, nil
}

// key orders pods by namespace, name and UID.
func (p Pod) key() string { return p.Namespace + "\x00" + p.Name + "\x00" + string(p.UID) }

func matcher(f *podconfigv1.PodFilter) (func(Pod) bool, error) {
	switch {
	case f.GetLabelSelector() != "":
		return nil, status.Error(codes.InvalidArgument, "filter.label_selector: isn't applied to observed pods")
	case len(f.GetNodes()) > 0:
		return nil, status.Error(codes.InvalidArgument, "filter.nodes: isn't applied to observed pods")
	}
	matches := func(wanted []string, value string) bool { return len(wanted) == 0 || slices.Contains(wanted, value) }
	return func(p Pod) bool {
		return matches(f.GetSources(), p.Source) && matches(f.GetNamespaces(), p.Namespace) && matches(f.GetNames(), p.Name)
	}, nil
}

func message(p Pod, format podconfigv1.PodFormat) (*podexecv1.ObservedPod, error) {
	m := &podexecv1.ObservedPod{
		Ref:    &podconfigv1.PodRef{Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name},
		Source: p.Source, WorkerState: p.State, Desired: p.Desired,
	}
	if p.Err != nil {
		// An error may quote what isn't text, and one such string would keep the whole response from being encoded.
		m.LastError = strings.ToValidUTF8(p.Err.Error(), "\uFFFD")
	}
	if p.Status == nil {
		m.Phase = string(v1.PodPending)
		return m, nil
	}
	m.Phase, m.ChangedTime = string(p.Status.Phase), timestamppb.New(p.Changed)
	return m, addStatus(m, p.Status, format)
}

func addStatus(m *podexecv1.ObservedPod, s *v1.PodStatus, format podconfigv1.PodFormat) error {
	switch format {
	case podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED, podconfigv1.PodFormat_POD_FORMAT_JSON:
		data, err := json.Marshal(s)
		content := &structpb.Struct{}
		if err == nil {
			err = content.UnmarshalJSON(data)
		}
		if err != nil {
			return status.Error(codes.Internal, fmt.Sprintf("encode status of %s: %v", m.GetRef().GetName(), err))
		}
		m.Status = &podexecv1.ObservedPod_Json{Json: content}
	case podconfigv1.PodFormat_POD_FORMAT_PROTOBUF:
		data, err := s.Marshal()
		if err != nil {
			return status.Error(codes.Internal, fmt.Sprintf("encode status of %s: %v", m.GetRef().GetName(), err))
		}
		m.Status = &podexecv1.ObservedPod_Protobuf{Protobuf: data}
	}
	return nil
}

// checkFormat refuses a format of a later version, whether or not there is a status to be put into it.
func checkFormat(format podconfigv1.PodFormat) error {
	if _, known := podconfigv1.PodFormat_name[int32(format)]; !known {
		return status.Errorf(codes.InvalidArgument, "format: %d isn't known", format)
	}
	return nil
}
