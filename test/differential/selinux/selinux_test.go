package selinux

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/util"

	"github.com/podstream/podstream/test/labelpods/wire"
)

var (
	count = flag.Int("cases", 20000, "number of cases")
	first = flag.Int("cases.first", 0, "number of the first case")
	seed  = flag.Uint64("cases.seed", 0, "seed; 0: a new one")
)

// The intended differences.
const (
	// noLevel: without a level the kubelet mounts with a random one, which isn't the container's.
	noLevel = "options without a level"
	// manyWithoutContext: the kubelet refuses containers with different labels also if the volume would have no context.
	manyWithoutContext = "different labels, and no context"
	// hostile: options that end the mount option are refused.
	hostile = "characters that end the mount option"
)

// policy is a util.SELinuxLabelTranslator with the labels of package wire.
type policy struct{ random int }

func (*policy) SELinuxEnabled() bool { return true }

func (p *policy) SELinuxOptionsToFileLabel(o *v1.SELinuxOptions) (string, error) {
	if o == nil || *o == (v1.SELinuxOptions{}) {
		return "", nil
	}
	level := o.Level
	if level == "" {
		p.random++
		level = fmt.Sprintf("random%d", p.random)
	}
	return wire.FileLabel(o.User, level), nil
}

// plugin is the kubelet's plugin of all volumes.
type plugin struct {
	volume.VolumePlugin
	mountable *bool
}

func (plugin) Init(volume.VolumeHost) error                             { return nil }
func (plugin) GetPluginName() string                                    { return "kubernetes.io/csi" }
func (plugin) CanSupport(*volume.Spec) bool                             { return true }
func (p plugin) SupportsSELinuxContextMount(*volume.Spec) (bool, error) { return *p.mountable, nil }

// kubelet returns what the kubelet's volume manager makes of a case, with its functions.
func kubelet(pod *v1.Pod, r wire.Request, plugins *volume.VolumePluginMgr) (a wire.Answer, err error) {
	spec := volume.NewSpecFromVolume(&pod.Spec.Volumes[0])
	if r.Persistent {
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
		for _, mode := range r.Modes {
			pv.Spec.AccessModes = append(pv.Spec.AccessModes, v1.PersistentVolumeAccessMode(mode))
		}
		spec = volume.NewSpecFromPersistentVolume(pv, false)
	}
	_, _, options := util.GetPodVolumeNames(pod, true)
	supported := util.VolumeSupportsSELinuxMount(spec)
	info, err := util.GetMountSELinuxLabel(spec, options[r.Volume], pod.Spec.SecurityContext, plugins, &policy{})
	if util.IsMultipleSELinuxLabelsError(err) {
		a.Multiple, a.Matters = supported, supported && r.Mountable
		return a, nil
	}
	if a.Matters = supported && info.PluginSupportsSELinuxContextMount; a.Matters {
		a.Context = info.SELinuxMountLabel
	}
	return a, err
}

// pick returns one of the values.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

func options(r *rand.Rand) *v1.SELinuxOptions {
	return pick(r, nil, nil, &v1.SELinuxOptions{}, &v1.SELinuxOptions{Level: "s0:c1,c2"}, &v1.SELinuxOptions{Level: "s0:c1,c2", Type: "spc_t"},
		&v1.SELinuxOptions{Level: "s0:c3", User: "staff_u", Role: "r"}, &v1.SELinuxOptions{Type: "spc_t"}, &v1.SELinuxOptions{Level: "s0:c1,c2"},
		&v1.SELinuxOptions{Level: `s0",suid,x="`})
}

func container(r *rand.Rand) v1.Container {
	var c v1.Container
	if o := options(r); o != nil || r.IntN(2) == 0 {
		c.SecurityContext = &v1.SecurityContext{SELinuxOptions: o}
	}
	for _, name := range [][]string{nil, {"data"}, {"data"}, {"data", "data"}, {"other"}}[r.IntN(5)] {
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name})
	}
	return c
}

// random returns a case.
func random(r *rand.Rand) (*v1.Pod, wire.Request) {
	pod := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{{Name: "data"}}}}
	if r.IntN(4) > 0 {
		recursive, mount := v1.SELinuxChangePolicyRecursive, v1.SELinuxChangePolicyMountOption
		pod.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: options(r), SELinuxChangePolicy: pick(r, nil, nil, &mount, &recursive)}
	}
	for range r.IntN(3) {
		pod.Spec.Containers = append(pod.Spec.Containers, container(r))
	}
	for range r.IntN(2) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container(r))
	}
	if r.IntN(5) == 0 {
		c := container(r)
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
			SecurityContext: c.SecurityContext, VolumeMounts: c.VolumeMounts,
		}}}
	}
	q := wire.Request{Volume: "data", Mountable: r.IntN(4) > 0, Persistent: r.IntN(5) > 0, Gate: r.IntN(2) == 0}
	if q.Persistent {
		q.Modes = pick(r, []string{"ReadWriteOncePod"}, []string{"ReadWriteOnce"}, []string{"ReadWriteMany", "ReadOnlyMany"}, []string{"ReadWriteOncePod", "ReadWriteOnce"})
	}
	return pod, q
}

// rule returns the rule of a difference, or "".
func rule(pod *v1.Pod, r wire.Request, theirs, ours wire.Answer) string {
	recursive := pod.Spec.SecurityContext != nil && pod.Spec.SecurityContext.SELinuxChangePolicy != nil &&
		*pod.Spec.SecurityContext.SELinuxChangePolicy == v1.SELinuxChangePolicyRecursive
	_, _, all := util.GetPodVolumeNames(pod, true)
	without, quoted := false, false
	for _, o := range all[r.Volume] {
		without = without || o.Level == "" && *o != (v1.SELinuxOptions{})
		quoted = quoted || strings.Contains(o.Level, `"`)
	}
	none := ours.Context == "" && ours.Error == "" && !ours.Multiple
	switch {
	case theirs.Matters != ours.Matters:
		return ""
	case quoted && ours.Error != "" && (theirs.Multiple || strings.Contains(theirs.Context, `"`)):
		return hostile
	case theirs.Multiple && none && (recursive || !r.Mountable):
		return manyWithoutContext
	case without && none && (theirs.Multiple || strings.Contains(theirs.Context, "random")):
		return noLevel
	}
	return ""
}

// labelpods is the process.
type labelpods struct {
	in  *json.Encoder
	out *json.Decoder
}

func start(t *testing.T) *labelpods {
	t.Helper()
	program := filepath.Join(t.TempDir(), "labelpods")
	build := exec.Command("go", "build", "-o", program, "./test/labelpods")
	build.Dir = filepath.Join("..", "..", "..")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build labelpods: %v\n%s", err, output)
	}
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out io.ReadCloser
	if out, err = cmd.StdoutPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &labelpods{json.NewEncoder(in), json.NewDecoder(out)}
}

func (p *labelpods) decide(pod *v1.Pod, r wire.Request) (a wire.Answer, err error) {
	if r.Pod, err = json.Marshal(pod); err == nil {
		err = p.in.Encode(r)
	}
	if err == nil {
		err = p.out.Decode(&a)
	}
	return a, err
}

// TestContexts: podexecd's contexts are the kubelet's, except as the rules say.
func TestContexts(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", *seed)
	p := start(t)
	var mountable bool
	plugins := &volume.VolumePluginMgr{}
	if err := plugins.InitPlugins([]volume.VolumePlugin{plugin{mountable: &mountable}}, nil, nil); err != nil {
		t.Fatal(err)
	}
	rules, contexts := map[string]int{}, 0
	for n := *first; n < *first+*count; n++ {
		pod, r := random(rand.New(rand.NewPCG(*seed, uint64(n))))
		mountable = r.Mountable
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{"SELinuxMount": r.Gate, "SELinuxChangePolicy": true}); err != nil {
			t.Fatal(err)
		}
		theirs, err := kubelet(pod, r, plugins)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := p.decide(pod, r)
		if err != nil {
			t.Fatal(err)
		}
		if ours.Context != "" {
			contexts++
		}
		if ours == theirs {
			continue
		}
		name := rule(pod, r, theirs, ours)
		if name == "" {
			text, _ := json.Marshal(pod.Spec)
			t.Fatalf("case %d of seed %d: the kubelet has %+v, podexecd %+v\n%+v\n%s", n, *seed, theirs, ours, r, text)
		}
		rules[name]++
	}
	t.Logf("%d cases, %d with a context, no unexplained difference; differences by rule: %v", *count, contexts, rules)
	for _, name := range []string{noLevel, manyWithoutContext, hostile} {
		if rules[name] == 0 && *count >= 1000 {
			t.Errorf("the rule %q was never needed", name)
		}
	}
}
