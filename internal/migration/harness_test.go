package migration

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/adoption"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/simruntime"
	"github.com/podstream/podstream/internal/simruntime/simtest"
)

func TestMain(m *testing.M) { simtest.Main(m) }

// kubelet is a node with a kubelet's directories on a simulated runtime.
type kubelet struct {
	t      *testing.T
	dir    string
	cfg    Config
	server *simruntime.Server
}

func newKubelet(t *testing.T) *kubelet {
	t.Helper()
	k := &kubelet{t: t, dir: t.TempDir(), server: simruntime.New(simruntime.Config{})}
	k.cfg = Config{
		HostnameOverride: "node1", RuntimeEndpoint: simtest.Serve(t, k.server), RootDir: filepath.Join(k.dir, "kubelet"),
		LogsDir: filepath.Join(k.dir, "logs"), Kubelet: kubeletconfig.Paths{Config: filepath.Join(k.dir, "config.yaml")}, Patience: time.Minute,
	}
	k.write("config.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodPath: manifests\n")
	k.mkdir("manifests")
	return k
}

func (k *kubelet) mkdir(path ...string) {
	k.t.Helper()
	if err := os.MkdirAll(filepath.Join(append([]string{k.dir}, path...)...), 0o700); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kubelet) write(name, content string) {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, name), []byte(content), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// pod returns a pod of the node with one container.
func pod(name, uid string) *v1.Pod {
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)},
		Spec: v1.PodSpec{
			NodeName: "node1", RestartPolicy: v1.RestartPolicyAlways, Containers: []v1.Container{{Name: "app", Image: "localhost/sample:1"}},
		},
	}
}

// run runs the pod as the kubelet does, and creates its directories. It returns the container's ID.
func (k *kubelet) run(p *v1.Pod, source string) string {
	k.t.Helper()
	k.mkdir("kubelet", "pods", string(p.UID))
	k.mkdir("logs", filepath.Base(podmeta.LogDir("", p.Namespace, p.Name, p.UID)))
	return k.runWithout(p, map[string]string{podmeta.SourceAnnotation: source})
}

// runWithout runs the pod without directories, with these annotations of the sandbox.
func (k *kubelet) runWithout(p *v1.Pod, annotations map[string]string) string {
	k.t.Helper()
	client := simtest.Runtime(k.t, k.cfg.RuntimeEndpoint)
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Namespace: p.Namespace, Name: p.Name, Uid: string(p.UID)},
		Labels:   podmeta.Labels(p), Annotations: annotations, Linux: &runtimeapi.LinuxPodSandboxConfig{},
	}
	id, err := client.RunPodSandbox(k.t.Context(), sandbox, "")
	if err != nil {
		k.t.Fatal(err)
	}
	c := &p.Spec.Containers[0]
	labels := maps.Clone(sandbox.Labels)
	labels[podmeta.ContainerNameLabel] = c.Name
	container, err := client.CreateContainer(k.t.Context(), id, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: c.Name}, Image: &runtimeapi.ImageSpec{Image: "localhost/sample:1"}, Args: c.Args,
		Labels: labels, Annotations: map[string]string{criconfig.ContainerHashAnnotation: criconfig.ContainerHash(c)},
	}, sandbox)
	if err != nil {
		k.t.Fatal(err)
	}
	if err := client.StartContainer(k.t.Context(), container); err != nil {
		k.t.Fatal(err)
	}
	return container
}

// list sets the list of --pods.
func (k *kubelet) list(pods ...*v1.Pod) {
	k.t.Helper()
	list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	for _, p := range pods {
		list.Items = append(list.Items, *p)
	}
	data, err := json.Marshal(list)
	if err != nil {
		k.t.Fatal(err)
	}
	k.cfg.Pods = data
}

// examine returns the report.
func (k *kubelet) examine() *Report {
	k.t.Helper()
	report, err := Examine(k.t.Context(), k.cfg)
	if err != nil {
		k.t.Fatal(err)
	}
	return report
}

// actions returns the actions of a report, by the pods' names.
func actions(r *Report) map[string]adoption.Action {
	out := map[string]adoption.Action{}
	for _, p := range r.Pods {
		out[p.Name] = p.Action
	}
	return out
}
