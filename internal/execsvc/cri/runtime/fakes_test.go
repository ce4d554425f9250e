package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/cri/handler"
	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
)

// imageAnswer is the answer for a container's image, other than that it is there.
type imageAnswer struct {
	wait *image.Wait
	err  error
}

// simImages pulls each missing image at once, except for those with an answer.
type simImages struct {
	service internalapi.ImageManagerService

	mu sync.Mutex
	// waits are the answers by container, or by image. asked has the containers, and wanted each request as "CONTAINER
	// POLICY IMAGE".
	waits         map[string]imageAnswer
	asked, wanted []string
	// used are the containers for which Used was called, and sandboxes the names of the pods in calls of Ensure.
	used, sandboxes []string
}

func (i *simImages) Used(_ types.UID, container string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.used = append(i.used, container)
}

// answer sets the answer for the images of a container, or for one image. Nil removes it.
func (i *simImages) answer(containerOrImage string, wait *image.Wait, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.waits[containerOrImage] = imageAnswer{wait, err}
}

func (i *simImages) Ensure(
	ctx context.Context, _ *v1.Pod, c *v1.Container, sandbox *runtimeapi.PodSandboxConfig,
) (*runtimeapi.Image, *image.Wait, error) {
	i.mu.Lock()
	i.sandboxes = append(i.sandboxes, sandbox.GetMetadata().GetName())
	i.asked, i.wanted = append(i.asked, c.Name), append(i.wanted, fmt.Sprintf("%s %s %s", c.Name, c.ImagePullPolicy, c.Image))
	said, ok := i.waits[c.Name]
	if byImage, is := i.waits[c.Image]; is {
		said, ok = byImage, true
	}
	i.mu.Unlock()
	if ok && (said.wait != nil || said.err != nil) {
		return nil, said.wait, said.err
	}
	spec := &runtimeapi.ImageSpec{Image: c.Image}
	resp, err := i.service.ImageStatus(ctx, spec, false)
	if err == nil && resp.GetImage() == nil {
		if _, err = i.service.PullImage(ctx, spec, nil, nil); err != nil {
			return nil, &image.Wait{Reason: image.ErrImagePull, Message: err.Error()}, err
		}
		resp, err = i.service.ImageStatus(ctx, spec, false)
	}
	if err != nil {
		return nil, &image.Wait{Reason: image.ImageInspectError, Message: err.Error()}, err
	}
	return resp.GetImage(), nil, nil
}

// simHooks records the hooks that run, as "container: command", and calls run for each.
type simHooks struct {
	mu   sync.Mutex
	ran  []string
	last handler.Target
	// run, if set, is what happens in a hook.
	run func(ctx context.Context, container string) error
}

func (h *simHooks) Hook(ctx context.Context, target handler.Target, hook *v1.LifecycleHandler) error {
	h.mu.Lock()
	what := "request"
	if hook.Exec != nil {
		what = strings.Join(hook.Exec.Command, " ")
	}
	h.ran, h.last = append(h.ran, target.Container+": "+what), target
	run := h.run
	h.mu.Unlock()
	if run == nil {
		return nil
	}
	return run(ctx, target.Container)
}

func (h *simHooks) took() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.ran
	h.ran = nil
	return out
}

// hookOf is a hook that runs one command.
func hookOf(command string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{command}}}
}

// plainSetup returns the environment of the container spec and the mounts of the test, or an error.
type plainSetup struct {
	mounts []criconfig.Mount
	err    error
}

func (w plainSetup) SandboxOptions(pod *v1.Pod) (SandboxOptions, error) {
	hostname, domain, err := criconfig.HostnameOf(pod, "")
	return SandboxOptions{Hostname: hostname, Domain: domain}, err
}

func (w plainSetup) RuntimeHandler(pod *v1.Pod) (string, error) {
	if name := ptr.Deref(pod.Spec.RuntimeClassName, ""); name != "gone" {
		return name, nil
	}
	return "", errors.New(`runtimeclass.node.k8s.io "gone" not found`)
}

func (w plainSetup) ContainerOptions(_ context.Context, _ *v1.Pod, c *v1.Container, _ []string) (ContainerOptions, error) {
	var env []criconfig.EnvVar
	for _, e := range c.Env {
		env = append(env, criconfig.EnvVar{Name: e.Name, Value: e.Value})
	}
	return ContainerOptions{Env: env, Mounts: w.mounts}, w.err
}
