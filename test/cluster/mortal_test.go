package cluster

import (
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/cluster/apivolumes"
	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// mortal is a node whose podexecd, drivers and containerd die again and again. Only one goroutine uses it, but for killRuntime.
type mortal struct {
	*storageNode
	count  *tally
	chance *mathrand.Rand
	// all are all deaths at certain points.
	all []ending
	// points are podexecd's next points, and armed is the one at which it dies next.
	points []failpoint.Point
	armed  failpoint.Point
	// mortals are the drivers.
	mortals []*mortalDriver
	// machine is the node's containerd, cri its socket for podexecd, and direct a client of it. Nil: the runtime is simulated.
	machine *devnode.Node
	cri     *mortalRuntime
	direct  runtimeapi.RuntimeServiceClient
	// dying is held while containerd is killed and started.
	dying   sync.Mutex
	strikes []strike

	image   string
	volumes []mortalVolume
	pods    int
	// canaries are files that nothing may change, with their content, and dirs are empty directories that nothing may remove.
	canaries map[string]string
	dirs     []string
}

// mortalVolume is a volume of each pod, and its PersistentVolume, of whose claim the name is the same.
type mortalVolume struct {
	name, pv string
	block    bool
	// canary is the text at the begin of the device, or in the file canary.
	canary string
}

// newMortal starts a node, and has a pod run once, which gets its canaries.
func newMortal(t *testing.T, name, programs string, chance *mathrand.Rand, count *tally) *mortal {
	t.Helper()
	m := &mortal{count: count, chance: chance, canaries: map[string]string{}, image: "localhost/main:1"}
	m.storageNode = &storageNode{
		node: newNodeWith(t, name, t.TempDir()), admin: plane.client(t), programs: programs,
		mode: corev1.PersistentVolumeFilesystem,
	}
	t.Cleanup(m.detach)
	m.startRuntime(t)
	m.all = allPoints(chance, m.machine != nil)
	m.launchExec(t)
	m.makeVolumes(t)
	m.makeForeign(t)
	rig.Must(t, os.WriteFile(filepath.Join(m.manifests, "claim.yaml"), []byte(staticClaim), 0o600))
	m.toggleStatic(t)

	pod := m.next(t)
	m.until(t, "the first pod runs", m.runs(pod))
	m.until(t, "the static pod runs", m.staticRuns)
	m.writeCanaries(t, pod)
	m.inside(t, pod).check(t)
	remove(t, m.admin, pod.Name)
	m.until(t, "the first pod is gone, and its volumes are unstaged", m.ended(pod))
	m.checkUnused(t, pod)
	return m
}

// detach removes what a failed test has left, before the node's directory is removed.
func (m *mortal) detach() {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for _, line := range slices.Backward(strings.Split(strings.TrimSpace(string(mounts)), "\n")) {
		if at := strings.Fields(line)[4]; strings.HasPrefix(at, m.dir+"/") {
			_ = unix.Unmount(at, unix.MNT_DETACH)
		}
	}
}

func (m *mortal) startRuntime(t *testing.T) {
	t.Helper()
	if *deathRuntime == "sim" {
		m.startSim(t)
		return
	}
	kind := rig.Get(devnode.ContainerdOf(strings.TrimPrefix(*deathRuntime, "containerd-")))(t)
	dir := rig.Get(os.MkdirTemp("", "rt"))(t) // short, as it has sockets
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m.machine = rig.Get(devnode.Start(t.Context(), devnode.Config{Dir: dir, Runtime: kind, BinDir: m.programs, Log: t.Output()}))(t)
	t.Cleanup(func() { rig.Must(t, m.machine.Close()) })
	conn := rig.Get(grpc.NewClient(m.machine.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = conn.Close() })
	m.direct = runtimeapi.NewRuntimeServiceClient(conn)
	m.cri = startMortalRuntime(t, m.path("cri.sock"), m.machine.Endpoint(), m.killRuntime)
	m.endpoint, m.image = "unix://"+m.path("cri.sock"), devnode.SampleImage
}

// makeVolumes makes the volumes with their claims, and starts the drivers. Those of directories are attached for the whole test.
func (m *mortal) makeVolumes(t *testing.T) {
	t.Helper()
	for _, d := range []struct {
		victim  victim
		name    string
		options csidriver.Options
	}{
		{victimDirs, m.name + "d", csidriver.Options{AttachRequired: true, Backing: csidriver.Directory, Volumes: []string{"dir0", "dir1"}}},
		{victimImages, m.name + "i", csidriver.Options{Backing: csidriver.Image, Volumes: []string{"ext4", "block"}}},
	} {
		// It attaches the volumes. Then its successors, which die, have its directory.
		first := m.startDriverWith(t, d.name, d.options, true)
		options := first.Options()
		for _, handle := range d.options.Volumes {
			v := mortalVolume{name: handle, pv: m.name + "-" + handle, block: handle == "block"}
			mode := corev1.PersistentVolumeFilesystem
			if v.block {
				mode = corev1.PersistentVolumeBlock
			}
			m.bindVolume(t, v.pv, v.pv, mode, corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: options.Name, VolumeHandle: handle},
			})
			if options.AttachRequired {
				m.attach(t, apivolumes.Attachment{Driver: options.Name, Handle: handle}, v.pv)
			}
			m.volumes = append(m.volumes, v)
		}
		first.Stop()
		driver := &mortalDriver{victim: d.victim, options: options}
		m.mortals = append(m.mortals, driver)
		m.startDriverProcess(t, driver)
		t.Cleanup(func() {
			driver.process.Kill()
			driver.killers.Wait()
		})
	}
	local := mortalVolume{name: "local", pv: m.name + "-local"}
	rig.Must(t, os.Mkdir(m.path("local"), 0o755))
	m.bindVolume(t, local.pv, local.pv, corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeSource{
		Local: &corev1.LocalVolumeSource{Path: m.path("local")},
	})
	m.volumes = append(m.volumes, local)
}

const staticClaim = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: static}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`

// staticPod is the manifest of a pod with the claim.
const staticPod = `apiVersion: v1
kind: Pod
metadata: {name: static}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: %q, args: [sleep], volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: static}}]
`

// staticRuns is what until waits for. The static pod has no mirror pod: the API server rejects one that has a claim. So it runs if its claim is
// mounted, and if the runtime has its container.
func (m *mortal) staticRuns(ctx context.Context) (bool, string) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	is := slices.ContainsFunc(strings.Split(string(mounts), "\n"), func(line string) bool {
		return strings.Contains(line, m.path("kubelet")) && strings.Contains(line, "kubernetes.io~local-volume/static/mount ")
	})
	if err != nil || !is || m.machine == nil {
		return err == nil && is, fmt.Sprint("its claim isn't mounted, ", err)
	}
	list, err := m.direct.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{"io.kubernetes.pod.name": "static-" + m.name},
	}})
	return err == nil && len(list.GetContainers()) == 1, fmt.Sprint(list, err)
}

func (m *mortal) staticManifest() string { return filepath.Join(m.manifests, "static.yaml") }

// toggleStatic adds the static pod or removes it.
func (m *mortal) toggleStatic(t *testing.T) {
	t.Helper()
	if err := os.Remove(m.staticManifest()); os.IsNotExist(err) {
		rig.Must(t, os.WriteFile(m.staticManifest(), fmt.Appendf(nil, staticPod, m.image), 0o600))
	} else {
		rig.Must(t, err)
	}
}
