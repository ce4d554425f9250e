package usage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/test/rig"
)

// space is a namespace, whose pods all go to one node.
type space struct {
	site *site
	name string
	node *node
}

// newSpace creates a namespace for the test, on the shared node or another one. It and its pods are removed
// when the test ends.
func newSpace(t *testing.T, on ...*node) *space {
	t.Helper()
	n := here.main
	if len(on) > 0 {
		n = on[0]
	}
	return newSpaceOf(t, corev1.LabelHostname+"="+n.Name, n)
}

// newSpaceOf is newSpace on the nodes of a selector. n is one of them.
func newSpaceOf(t *testing.T, selector string, n *node) *space {
	t.Helper()
	s := &space{site: here, name: strings.ToLower(t.Name()), node: n}
	client := rig.Get(here.Plane.Client(t.Context()))(t)
	rig.Get(client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: s.name, Annotations: map[string]string{"scheduler.alpha.kubernetes.io/node-selector": selector},
	}}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { s.close(t) })
	// A pod is rejected if its service account doesn't exist.
	rig.Get(await(t.Context(), here.accounts(s.name), "the namespace has its account", func(accounts map[string]*corev1.ServiceAccount) error {
		return when(accounts["default"] != nil)
	}))(t)
	return s
}

// close removes the namespace and waits until its pods are gone: a node that leaves one fails every test. If
// the test has already failed, it first logs the state.
func (s *space) close(t *testing.T) {
	if t.Failed() {
		for _, args := range [][]string{{"get", "pods", "-o", "wide"}, {"get", "events"}, {"describe", "pods"}} {
			text, err := s.try(context.Background(), "", args...)
			t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, text)
		}
		if s.node == here.main {
			t.Log(s.node.Tails())
		}
	}
	rig.Must(t, s.site.Client.CoreV1().Namespaces().Delete(context.Background(), s.name, metav1.DeleteOptions{}))
	_, err := await(context.Background(), s.pods(), "all pods are gone", func(pods map[string]*corev1.Pod) error {
		for _, pod := range pods {
			return fmt.Errorf("%s is there: %s", pod.Name, describe(pod))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
		for _, args := range [][]string{{"get", "pods", "-o", "yaml"}, {"get", "--raw", "/api/v1/nodes/" + s.node.Name + "/proxy/pods"}, {"delete", "pods", "--all", "--force", "--grace-period=0"}} {
			text, err := s.try(context.Background(), "", args...)
			t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, text)
		}
		t.Log(s.node.Tails())
	}
}

// kubectl runs kubectl in the namespace and returns its output. The exit code must be 0.
func (s *space) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return rig.Get(s.try(t.Context(), "", args...))(t)
}

// try runs a kubectl that may fail: the error has its exit code and its error output. input is its input.
func (s *space) try(ctx context.Context, input string, args ...string) (string, error) {
	return s.site.try(ctx, input, append([]string{"--namespace", s.name}, args...)...)
}

func (s *site) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return rig.Get(s.try(context.Background(), "", args...))(t)
}

func (s *site) try(ctx context.Context, input string, args ...string) (string, error) {
	cmd := s.command(ctx, args...)
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// command returns kubectl as an administrator runs it.
func (s *site) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.tools, "kubectl"), append([]string{"--kubeconfig", s.Kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "TERM=dumb") // its cache is removed with the site
	return cmd
}

// exitCode returns the exit code of a kubectl that failed, or -1.
func exitCode(err error) int {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return -1
	}
	return exit.ExitCode()
}

// apply runs kubectl apply with a manifest.
func (s *space) apply(t *testing.T, manifest string) {
	t.Helper()
	rig.Get(s.try(t.Context(), manifest, "apply", "-f", "-"))(t)
}

// applyPod creates a pod with one container, main. spec has fields of the pod, and container fields of the
// container, both in YAML's flow style without the braces.
func (s *space) applyPod(t *testing.T, name, image, container, spec string) {
	t.Helper()
	s.apply(t, podManifest(name, image, container, spec))
}

func podManifest(name, image, container, spec string) string {
	if container != "" {
		container = ", " + container
	}
	if spec != "" {
		spec += ", "
	}
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %q, labels: {app: %q}},
spec: {%scontainers: [{name: main, image: %q%s}]}}`, name, name, spec, image, container)
}

// shell returns a container's command that runs a script in the shell of toolsImage.
func shell(script string) string { return fmt.Sprintf("command: [sh, -c, %q]", script) }

// sample returns a container's command for the sample program.
func sample(args ...string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = fmt.Sprintf("%q", arg)
	}
	return "command: [/sample, " + strings.Join(quoted, ", ") + "]"
}
