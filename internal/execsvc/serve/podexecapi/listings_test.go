package podexecapi

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// However many callers list the images, few of them use memory for that, and the runtime, at a time. The others wait, and not
// longer than they want to. While the runtime hangs, other calls are answered.
func TestListImagesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(running("file", "a", "busybox", ""))
		var lists, most int
		answer := make(chan struct{})
		var mu sync.Mutex
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			lists += n
			most = max(most, lists)
		}
		s.cfg.Images = &fakeImages{list: []*runtimeapi.Image{{Id: id("a")}}, listing: func(ctx context.Context) {
			count(1)
			defer count(-1)
			select {
			case <-answer:
			case <-ctx.Done():
			}
		}}
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				if resp, err := s.ListImages(as(t, operator), &podexecv1.ListImagesRequest{}); err != nil || len(resp.GetImages()) != 1 {
					t.Errorf("%v, %v", resp, err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(as(t, operator), time.Second)
		defer cancel()
		if _, err := s.ListImages(ctx, &podexecv1.ListImagesRequest{}); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a caller that doesn't wait: %v", err)
		}
		if _, err := s.ListPods(as(t, operator), &podexecv1.ListPodsRequest{}); err != nil {
			t.Errorf("meanwhile, ListPods: %v", err)
		}
		close(answer)
		calls.Wait()
		if most != maxListings {
			t.Errorf("%d lists at a time; want %d", most, maxListings)
		}
	})
}
