package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
)

// pullRequest is a call of PullImage. Its messages are read by next.
type pullRequest struct {
	t      *testing.T
	stream podexecv1.PodExecService_PullImageClient
	leave  context.CancelFunc
}

func (b *bench) pullImage(t *testing.T, image string) *pullRequest {
	t.Helper()
	eventually(t, "podexecd has found the runtime", func() error {
		_, err := b.Exec.ListImages(t.Context(), &podexecv1.ListImagesRequest{PageSize: 1})
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	stream, err := b.Exec.PullImage(ctx, &podexecv1.PullImageRequest{Image: image})
	check(t, err)
	return &pullRequest{t, stream, cancel}
}

// await reads messages until one for which is returns true.
func (r *pullRequest) await(what string, is func(*podexecv1.PullImageResponse) bool) *podexecv1.PullImageResponse {
	r.t.Helper()
	for {
		m, err := r.stream.Recv()
		if err != nil {
			r.t.Fatalf("%s: %v", what, err)
		}
		if is(m) {
			return m
		}
	}
}

// pulled reads to the end, and returns the image's ID.
func (r *pullRequest) pulled() string {
	r.t.Helper()
	m := r.await("the image is pulled", func(m *podexecv1.PullImageResponse) bool { return m.GetPulled() != nil })
	if _, err := r.stream.Recv(); !errors.Is(err, io.EOF) {
		r.t.Errorf("after the image: %v", err)
	}
	return m.GetPulled().GetId()
}

// image returns the node's image with that ID, or nil.
func (b *bench) image(t *testing.T, id string) *podexecv1.Image {
	t.Helper()
	for token := ""; ; {
		resp, err := b.Exec.ListImages(t.Context(), &podexecv1.ListImagesRequest{PageToken: token})
		check(t, err)
		if i := slices.IndexFunc(resp.GetImages(), func(i *podexecv1.Image) bool { return i.GetId() == id }); i >= 0 {
			return resp.GetImages()[i]
		}
		if token = resp.GetNextPageToken(); token == "" {
			return nil
		}
	}
}

// prune prunes, but no image besides that one: other tests share the node. It returns how many were removed.
func (b *bench) prune(t *testing.T, id string, dryRun bool) int {
	t.Helper()
	resp, err := b.Exec.PruneImages(t.Context(), &podexecv1.PruneImagesRequest{DryRun: dryRun, All: true, Ids: []string{id}})
	check(t, err)
	if len(resp.GetFailures()) > 0 {
		t.Errorf("prune: %v", resp.GetFailures())
	}
	return len(resp.GetImages())
}

// An image is pulled by request, listed with the pods that use it, kept while one does, and then pruned.
func TestImagesByRequest(t *testing.T) {
	on(t, all, func(t *testing.T, b *bench) {
		// The simulated runtime pulls this.
		name := "docker.io/sim/" + b.podName(t) + ":v1"
		if slices.ContainsFunc(containerds, func(r namedRuntime) bool { return r.kind == b.runtime }) {
			name = sharedHub(t).pushImage(t, "public/"+b.podName(t), newImage(t))
		}
		id := b.pullImage(t, name).pulled()
		if i := b.image(t, id); i == nil || !slices.Contains(i.GetTags(), name) || i.GetSizeBytes() == 0 || len(i.GetUsedBy()) > 0 {
			t.Fatalf("after the pull: %v", i)
		}
		p := b.run(t, `
containers:
- {name: main, image: "`+name+`", imagePullPolicy: Never, args: [sleep]}`)
		s := p.awaitReady()
		if i := b.image(t, id); len(i.GetUsedBy()) != 1 || i.GetUsedBy()[0].GetUid() != s.uid {
			t.Errorf("while a pod uses it: %v", i)
		}
		if n := b.prune(t, id, false); n != 0 || b.image(t, id) == nil {
			t.Errorf("while a pod uses it, %d images were removed", n)
		}
		p.remove()
		p.awaitGone()
		if n := b.prune(t, id, true); n != 1 || b.image(t, id) == nil {
			t.Errorf("a dry run: %d images, the image is %v", n, b.image(t, id))
		}
		if n := b.prune(t, id, false); n != 1 || b.image(t, id) != nil {
			t.Errorf("%d images were removed, the image is %v", n, b.image(t, id))
		}
	})
}

// A request shows the progress. When its caller leaves, the pull ends, unless a pod waits for it.
func TestImageRequestIsLeft(t *testing.T) {
	on(t, containerds, func(t *testing.T, b *bench) {
		hub, repository := sharedHub(t), "halved/"+b.podName(t)
		name := hub.pushImage(t, repository, newImage(t))
		open := hub.gate(repository)
		t.Cleanup(open)
		advanced := func(m *podexecv1.PullImageResponse) bool { return m.GetPull().GetProgress().GetDoneBytes() > 0 }
		atGate := func(want int) {
			t.Helper()
			eventually(t, fmt.Sprintf("%d requests wait in the registry", want), func() error {
				if n := hub.atGate(repository); n != want {
					return fmt.Errorf("there are %d", n)
				}
				return nil
			})
		}
		alone := b.pullImage(t, name)
		alone.await("it makes progress", advanced)
		atGate(2)
		alone.leave()
		atGate(0)

		p := b.run(t, `
containers:
- {name: main, image: "`+name+`", args: [sleep]}`)
		p.await("the pod's pull runs", func(s *state) bool { return started(s.pulls) == 1 })
		atGate(2)
		shared := b.pullImage(t, name)
		shared.await("it makes progress", advanced)
		shared.leave()
		open()
		p.awaitReady()
	})
}

// What the runtime can't pull, and how that is reported.
func TestImageRequestFails(t *testing.T) {
	on(t, all, func(t *testing.T, b *bench) {
		for image, want := range map[string]codes.Code{sharedHub(t).address + "/public/missing:v1": codes.NotFound, "No Name": codes.InvalidArgument} {
			r := b.pullImage(t, image)
			var err error
			for err == nil {
				_, err = r.stream.Recv()
			}
			if status.Code(err) != want {
				t.Errorf("%s: %v; want %v", image, err, want)
			}
		}
	})
}

// The use of resources by a pod that runs, with counters that rise.
func TestStatsOfPods(t *testing.T) {
	on(t, all, func(t *testing.T, b *bench) {
		p := b.run(t, `
containers:
- {name: main, args: [sleep]}`)
		s := p.awaitReady()
		var resp *podexecv1.GetStatsResponse
		eventually(t, "the pod's memory is known", func() (err error) {
			resp, err = b.Exec.GetStats(t.Context(), &podexecv1.GetStatsRequest{})
			if err != nil {
				return err
			}
			i := slices.IndexFunc(resp.GetPods(), func(p *podexecv1.PodStats) bool { return p.GetRef().GetUid() == s.uid })
			if i < 0 || len(resp.GetPods()[i].GetContainers()) != 1 || resp.GetPods()[i].GetMemory() == nil || resp.GetPods()[i].GetCpu().GetTime() == nil {
				return fmt.Errorf("the pods are %v", resp.GetPods())
			}
			return nil
		})
		if n := resp.GetNode(); n.GetMemory().GetWorkingSetBytes() == 0 || n.GetCpu().GetUsageCoreNanoseconds() == 0 || n.GetAllocatableMillicores() == 0 {
			t.Errorf("the node is %v", n)
		}
	})
}

// A podexecd that doesn't know yet which pods should run removes nothing, also if its store has pods.
func TestPruneWaitsForSources(t *testing.T) {
	onOwnBench(t, []namedRuntime{{"sim", devnode.Sim}}, nil, func(t *testing.T, b *bench) {
		id := b.pullImage(t, "sim/"+b.podName(t)+":v1").pulled()
		check(t, b.Podconfigd.Stop())
		b.restartPodexecd(t, (*devnode.Process).Stop)
		eventually(t, "podexecd has found the runtime", func() error {
			_, err := b.Exec.ListImages(t.Context(), &podexecv1.ListImagesRequest{PageSize: 1})
			return err
		})
		resp, err := b.Exec.PruneImages(t.Context(), &podexecv1.PruneImagesRequest{All: true})
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "not all pods of this node are known") || b.image(t, id) == nil {
			t.Errorf("without podconfigd: %v, %v; the image is %v", resp, err, b.image(t, id))
		}
		check(t, b.Podconfigd.Start())
		eventually(t, "the image is removed", func() error {
			resp, err := b.Exec.PruneImages(t.Context(), &podexecv1.PruneImagesRequest{All: true})
			if err == nil && len(resp.GetImages()) == 0 {
				err = errors.New("it isn't")
			}
			return err
		})
	})
}
