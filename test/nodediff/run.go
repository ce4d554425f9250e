package nodediff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/test/cridiff"
)

// Site is where cases are played: a guest, with the programs, the runtime and the API server.
type Site struct {
	Programs, Runtime, IP string
	// Log gets the reasons for which agents refuse to start: they are the agents' own words.
	Log     io.Writer
	server  *Server
	machine Machine
}

// Agent is one of the agents.
type Agent string

// The agents.
const (
	Kubelet   Agent = "kubelet"
	Podstream Agent = "podexecd"
)

// Run is a case that an agent plays.
type Run struct {
	Case  *Case
	Agent Agent
	*Site
	// dir is the same for both agents, and new for each.
	dir       string
	processes []*process
	// uids are the names of UIDs.
	uids map[string]string
	// fault makes requests to the runtime fail.
	fault atomic.Pointer[func(method string, request []byte) error]
	// end is closed at the end of the run.
	end chan struct{}
}

// commonGates are the kubelet's gates for what Podstream does on each node.
const commonGates = "ContainerStopSignals=true"

const (
	// readyTime bounds the time until a node is ready, or an agent has refused to start.
	readyTime = 2 * time.Minute
	// quiet is how long nothing may change before all is seen, and idle is that time for Podstream if it isn't
	// complete.
	quiet, idle = 5 * time.Second, 25 * time.Second
)

// Play plays a case with an agent, and returns what is seen when that is complete and doesn't change any more. If it isn't
// complete after a time, it is returned all the same.
func (s *Site) Play(ctx context.Context, c *Case, agent Agent, complete func(Seen) bool) (seen Seen, err error) {
	r := &Run{Case: c, Agent: agent, Site: s, dir: "/var/tmp/nodediff/node", uids: map[string]string{}, end: make(chan struct{})}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			err = r.clear(ctx)
		}
	}()
	proxy, err := cridiff.NewProxy(r.path("cri.sock"), s.Runtime, r.change, func(_ string, m []byte) ([]byte, error) { return m, nil })
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	defer close(r.end)
	if err := r.start(); err != nil {
		return nil, err
	}
	if c.Refuses {
		return r.refusal(ctx)
	}
	defer func() {
		for _, p := range r.processes {
			err = errors.Join(err, p.kill())
		}
	}()
	if err := r.awaitNode(ctx); err != nil {
		return nil, err
	}
	if err := r.createPods(ctx); err != nil {
		return nil, err
	}
	if c.Act != nil {
		if err := c.Act(ctx, r); err != nil {
			return nil, err
		}
	}
	return r.settle(ctx, complete)
}

func (r *Run) path(elements ...string) string {
	return filepath.Join(append([]string{r.dir}, elements...)...)
}

// agent returns the process that is compared.
func (r *Run) agent() *process { return r.processes[0] }

// change fails the requests that the case wants to fail.
func (r *Run) change(method string, request []byte) ([]byte, error) {
	if fault := r.fault.Load(); fault != nil {
		return request, (*fault)(method, request)
	}
	return request, nil
}

// Fail makes requests to the runtime fail from now on.
func (r *Run) Fail(fault func(method string, request []byte) error) { r.fault.Store(&fault) }

// hanging returns a fault of methods that don't end while the case runs.
func (r *Run) hanging(methods ...string) func(string, []byte) error {
	return func(method string, _ []byte) error {
		if slices.Contains(methods, method) {
			<-r.end
		}
		return nil
	}
}

// prepare makes the directory, and the machine as the case wants it.
func (r *Run) prepare(ctx context.Context) error {
	if err := errors.Join(cridiff.RemoveSandboxes(ctx, r.Runtime), r.machine.reset(), os.RemoveAll(r.dir), r.server.clear(ctx)); err != nil {
		return fmt.Errorf("reset the machine: %w", err)
	}
	for _, dir := range []string{"manifests", "logs", "plugins", "root"} {
		if err := os.MkdirAll(r.path(dir), 0o755); err != nil {
			return err
		}
	}
	config, err := r.Case.configuration(r.dir, r.Agent)
	if err != nil {
		return err
	}
	if r.Case.Prepare != nil {
		if err := r.Case.Prepare(&r.machine); err != nil {
			return err
		}
	}
	return errors.Join(os.WriteFile(r.path("config.yaml"), config, 0o644),
		os.WriteFile(r.path("resolv.conf"), []byte("nameserver 192.0.2.53\nsearch example.com\n"), 0o644))
}

// clear removes what the run has made.
func (r *Run) clear(ctx context.Context) error {
	return errors.Join(cridiff.RemoveSandboxes(ctx, r.Runtime), r.machine.reset(), r.server.clear(ctx))
}

// start starts the agent's programs.
func (r *Run) start() error {
	common := []string{"--config", r.path("config.yaml"), "--root-dir", r.path("root"), "--cert-dir", r.path("pki"), "--hostname-override", nodeName,
		"--node-ip", r.IP, "--kubeconfig", r.server.files.Kubeconfig()}
	common = append(common, r.Case.Flags...)
	socket := "unix://" + r.path("c.sock")
	if r.Agent == Kubelet {
		gates := strings.TrimSuffix(commonGates+","+r.Case.Gates, ",")
		return r.add("kubelet", append(common, "--feature-gates", gates, "--v", "2")...)
	}
	if err := r.add("podexecd", append(common, "--kubelet-dir", r.path("root"), "--listen", "unix://"+r.path("x.sock"), "--podconfig-endpoint", socket)...); err != nil {
		return err
	}
	return r.add("podconfigd", "--root-dir", r.path("podconfigd"), "--listen", socket, "--hostname-override", nodeName,
		"--config", r.path("config.yaml"), "--kubeconfig", r.server.files.Kubeconfig())
}

func (r *Run) add(program string, args ...string) error {
	p, err := start(r.dir, filepath.Join(r.Programs, program), args...)
	if err == nil {
		r.processes = append(r.processes, p)
	}
	return err
}

// Restart ends the agent's programs and starts them again.
func (r *Run) Restart(ctx context.Context) error {
	for _, p := range r.processes {
		if err := p.kill(); err != nil {
			return err
		}
	}
	r.processes = nil
	if err := r.start(); err != nil {
		return err
	}
	return r.awaitNode(ctx)
}

// awaitNode waits until the node is ready.
func (r *Run) awaitNode(ctx context.Context) error {
	return await(ctx, readyTime, "the node is ready", func(ctx context.Context) error {
		if r.agent().ended() {
			return finalError{fmt.Errorf("%s has ended: %w\n%s", r.Agent, r.agent().err, r.agent().tail(4000))}
		}
		node, err := r.server.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", node.Status.Conditions)
	})
}

// createPods creates the case's pods on the node.
func (r *Run) createPods(ctx context.Context) error {
	for _, pod := range r.Case.Pods {
		if err := r.Create(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// Create creates a pod on the node.
func (r *Run) Create(ctx context.Context, pod *v1.Pod) error {
	placed := pod.DeepCopy()
	placed.Spec.NodeName = nodeName
	_, err := r.server.Client.CoreV1().Pods(pod.Namespace).Create(ctx, placed, metav1.CreateOptions{})
	return err
}
