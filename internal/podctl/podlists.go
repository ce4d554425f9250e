package podctl

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// listDesired lists podconfigd's pods, in protobuf.
func (t *tool) listDesired(ctx context.Context, filter *podconfigv1.PodFilter) ([]*podconfigv1.Pod, error) {
	return t.listDesiredAs(ctx, filter, podconfigv1.PodFormat_POD_FORMAT_PROTOBUF)
}

// listDesiredAs lists podconfigd's pods. All pages show one revision; if podconfigd drops it before the last page,
// listDesiredAs starts again.
func (t *tool) listDesiredAs(
	ctx context.Context, filter *podconfigv1.PodFilter, format podconfigv1.PodFormat,
) ([]*podconfigv1.Pod, error) {
	conn, err := t.podconfigd.connect(t.userAgent())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := podconfigv1.NewPodConfigServiceClient(conn)
	list := func() ([]*podconfigv1.Pod, error) {
		return allPages(t.newListSize(), func(token string) ([]*podconfigv1.Pod, string, error) {
			resp, err := client.ListPods(ctx, &podconfigv1.ListPodsRequest{Format: format, Filter: filter, PageToken: token})
			return resp.GetPods(), resp.GetNextPageToken(), err
		})
	}
	const attempts = 3
	pods, err := list()
	for i := 1; i < attempts && status.Code(err) == codes.Aborted; i++ {
		pods, err = list()
	}
	if err != nil {
		return nil, conn.explain(err)
	}
	return pods, nil
}

// listObserved lists podexecd's pods.
func (t *tool) listObserved(ctx context.Context, filter *podconfigv1.PodFilter) ([]*podexecv1.ObservedPod, error) {
	conn, err := t.podexecd.connect(t.userAgent())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := podexecv1.NewPodExecServiceClient(conn)
	pods, err := allPages(t.newListSize(), func(token string) ([]*podexecv1.ObservedPod, string, error) {
		resp, err := client.ListPods(ctx, &podexecv1.ListPodsRequest{
			Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, Filter: filter, PageToken: token,
		})
		return resp.GetPods(), resp.GetNextPageToken(), err
	})
	if err != nil {
		return nil, conn.explain(err)
	}
	return pods, nil
}

// allPages calls fetch until there is no next page. More items than a node has are an error; size has the bounds.
func allPages[T proto.Message](size listSize, fetch func(token string) (items []T, next string, err error)) ([]T, error) {
	var all []T
	empty := 0
	token := ""
	for {
		items, next, err := fetch(token)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if err := size.add(item); err != nil {
				return nil, status.Error(codes.ResourceExhausted, err.Error())
			}
		}
		if len(items) == 0 {
			empty++
		}
		if empty > maxEmptyPages {
			return nil, status.Errorf(codes.ResourceExhausted, "the daemon sends more than %d pages without items", maxEmptyPages)
		}
		all = append(all, items...)
		switch next {
		case "":
			return all, nil
		case token:
			return nil, status.Error(codes.Internal, fmt.Sprintf("page %q names itself as the next one", token))
		}
		token = next
	}
}
