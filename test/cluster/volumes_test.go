package cluster

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
	"github.com/podstream/podstream/internal/execsvc/cluster/apivolumes"
	"github.com/podstream/podstream/internal/execsvc/cluster/csinode"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// newClient returns a client with the user's credentials. Its connections end with the test.
func newClient(t *testing.T, user, group string) *apiclient.Client {
	t.Helper()
	config := plane.ClientConfig(plane.URL, rig.Get(plane.Authority.Issue(user, group, time.Now().Add(control.CertificateLife)))(t))
	httpClient := rig.Get(rest.HTTPClientFor(config))(t)
	t.Cleanup(httpClient.CloseIdleConnections)
	return rig.Get(apiclient.New(config))(t)
}

// driversOf are the CSI drivers of a node, and the UID of its Node.
type driversOf struct {
	mu      sync.Mutex
	uid     types.UID
	drivers []csinode.Driver
	changed chan struct{}
	log     bytes.Buffer
}

func (d *driversOf) set(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
	close(d.changed)
	d.changed = make(chan struct{})
}

// Write receives the log.
func (d *driversOf) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(p)
}

func (d *driversOf) logged() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

// podexecd keeps the CSINode, and the drivers' labels and IDs on the Node, with its node's own credentials, and with the role
// of deploy/rbac.yaml. NodeRestriction limits the first only.
func TestCSINode(t *testing.T) {
	t.Run("node", func(t *testing.T) { testCSINode(t, "csinode", "system:node:csinode", "system:nodes") })
	t.Run("role", func(t *testing.T) {
		grant(t, "rbac.yaml")
		testCSINode(t, "csinode-role", "podexecd", "podstream:podexecd")
	})
}

func testCSINode(t *testing.T, name, user, group string) {
	t.Helper()
	admin, client := plane.client(t), newClient(t, user, group)
	register := func() (uid types.UID) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
		rig.Must(t, control.Until(t.Context(), nil, "the role is in force", func(ctx context.Context) error {
			created, err := client.Nodes().Create(ctx, node, metav1.CreateOptions{})
			if err == nil {
				uid = created.UID
			}
			return err
		}))
		return uid
	}
	d := &driversOf{uid: register(), changed: make(chan struct{})}
	keeper := csinode.New(csinode.Config{
		Client: client, Node: name, Logger: slog.New(slog.NewTextHandler(d, nil)),
		UID: func() (types.UID, <-chan struct{}) {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.uid, d.changed
		},
		Drivers: func() ([]csinode.Driver, <-chan struct{}) {
			d.mu.Lock()
			defer d.mu.Unlock()
			return slices.Clone(d.drivers), d.changed
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { keeper.Run(ctx) })
	defer running.Wait()
	defer cancel()
	// await waits until the CSINode is as it should be.
	await := func(t *testing.T, what string, good func(*storagev1.CSINode) bool) {
		t.Helper()
		rig.Must(t, control.Until(t.Context(), nil, what, func(ctx context.Context) error {
			object, err := admin.StorageV1().CSINodes().Get(ctx, name, metav1.GetOptions{})
			if err == nil && !good(object) {
				err = fmt.Errorf("%w: the CSINode is %+v; the log is\n%s", control.ErrNotYet, object, d.logged())
			}
			return err
		}))
	}
	zoned := csinode.Driver{Name: "zoned.example.com", NodeID: "i-1", Topology: map[string]string{"zoned.example.com/zone": "a"}, MaxVolumes: 8}
	plain := csinode.Driver{Name: "plain.example.com", NodeID: name}
	check(t, "the CSINode is the Node's, before there are drivers", func(t *testing.T) {
		await(t, "created", func(o *storagev1.CSINode) bool {
			return len(o.OwnerReferences) == 1 && o.OwnerReferences[0].UID == d.uid && o.Annotations[corev1.MigratedPluginsAnnotationKey] != ""
		})
	})
	registered := func(o *storagev1.CSINode) bool {
		return len(o.Spec.Drivers) == 2 && o.Spec.Drivers[0].Name == plain.Name && slices.Equal(o.Spec.Drivers[1].TopologyKeys, []string{"zoned.example.com/zone"}) &&
			*o.Spec.Drivers[1].Allocatable.Count == 8
	}
	check(t, "two drivers are registered", func(t *testing.T) {
		d.set(func() { d.drivers = []csinode.Driver{plain, zoned} })
		await(t, "registered", registered)
		node := rig.Get(admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{}))(t)
		want := fmt.Sprintf(`{"plain.example.com":"%s","zoned.example.com":"i-1"}`, name)
		if got := node.Annotations["csi.volume.kubernetes.io/nodeid"]; got != want || node.Labels["zoned.example.com/zone"] != "a" {
			t.Errorf("the Node has the annotation %s and the labels %v", got, node.Labels)
		}
	})
	if group == "system:nodes" {
		check(t, "a driver says what a node may not say: it is refused, once, and alone", func(t *testing.T) {
			forbidden := csinode.Driver{Name: "forbidden.example.com", NodeID: "x", Topology: map[string]string{"node-restriction.kubernetes.io/x": "y"}}
			d.set(func() { d.drivers = []csinode.Driver{forbidden, plain, zoned} })
			rig.Must(t, control.Until(t.Context(), nil, "the refusal is logged", func(context.Context) error {
				if log := d.logged(); strings.Count(log, "is refused") != 1 || !strings.Contains(log, "forbidden.example.com") {
					return fmt.Errorf("%w: the log is\n%s", control.ErrNotYet, log)
				}
				return nil
			}))
			await(t, "as before", registered)
		})
	}
	check(t, "a driver has another ID, and another number of volumes", func(t *testing.T) {
		zoned.NodeID, zoned.MaxVolumes = "i-2", 9
		d.set(func() { d.drivers = []csinode.Driver{plain, zoned} })
		await(t, "changed", func(o *storagev1.CSINode) bool {
			return len(o.Spec.Drivers) == 2 && o.Spec.Drivers[1].NodeID == "i-2" && *o.Spec.Drivers[1].Allocatable.Count == 9
		})
		zoned.MaxVolumes = 10
		d.set(func() { d.drivers = []csinode.Driver{plain, zoned} })
		await(t, "changed again", func(o *storagev1.CSINode) bool { return *o.Spec.Drivers[1].Allocatable.Count == 10 })
	})
	check(t, "the Node is replaced", func(t *testing.T) {
		rig.Must(t, admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
		next := register()
		d.set(func() { d.uid = next })
		await(t, "replaced", func(o *storagev1.CSINode) bool { return o.OwnerReferences[0].UID == next && len(o.Spec.Drivers) == 2 })
	})
}

// podexecd reads a pod's claim, its volume, and the Secrets that the node's calls to the volume's driver need, with its node's
// own credentials. It gets no other Secrets.
func TestVolumeSecrets(t *testing.T) {
	const name = "volumes"
	admin, client := plane.client(t), newClient(t, "system:node:"+name, "system:nodes")
	refs := map[string]*corev1.SecretReference{}
	for _, secret := range []string{"stage", "publish", "expand", "controller", "other"} {
		refs[secret] = &corev1.SecretReference{Namespace: namespace, Name: "csi-" + secret}
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "csi-" + secret}, StringData: map[string]string{"key": secret}}
		rig.Get(admin.CoreV1().Secrets(namespace).Create(t.Context(), object, metav1.CreateOptions{}))(t)
	}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim := rig.Get(admin.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeName: "csi-data", StorageClassName: new(string), Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{}))(t)
	rig.Get(admin.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "csi-data"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "d.example.com", VolumeHandle: "h", NodeStageSecretRef: refs["stage"], NodePublishSecretRef: refs["publish"],
				NodeExpandSecretRef: refs["expand"], ControllerPublishSecretRef: refs["controller"],
			}},
		},
	}, metav1.CreateOptions{}))(t)
	claim.Status.Phase = corev1.ClaimBound
	rig.Get(admin.CoreV1().PersistentVolumeClaims(namespace).UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}))(t)
	pod := createOn(t, name, admin, "with-claim", func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	})
	volumes := apivolumes.New(apivolumes.Config{
		Client: client, Node: name, Attached: func() []corev1.AttachedVolume { return nil }, Wake: func(types.UID) {},
	})
	defer volumes.Close()
	check(t, "the claim and its volume are read", func(t *testing.T) {
		// The authorizer receives the objects through separate watches.
		rig.Must(t, control.Until(t.Context(), nil, "the claim is read", func(ctx context.Context) error {
			c, err := volumes.Claim(ctx, pod, &pod.Spec.Volumes[0])
			if err == nil && c.Volume.Spec.CSI.VolumeHandle != "h" {
				t.Errorf("the volume is %+v", c.Volume)
			}
			return err
		}))
	})
	check(t, "the Secrets of the node's calls are read, and no others", func(t *testing.T) {
		for name, ref := range refs {
			got, err := volumes.Secret(t.Context(), ref.Namespace, ref.Name)
			if name == "controller" || name == "other" {
				if !apierrors.IsForbidden(err) {
					t.Errorf("Secret %s: %v, %v; want a refusal", name, got, err)
				}
			} else if err != nil || !maps.Equal(got, map[string]string{"key": name}) {
				t.Errorf("Secret %s: %v, %v", name, got, err)
			}
		}
	})
	check(t, "when the pod is gone they are no longer read", func(t *testing.T) {
		vanish(t, admin, pod.Name)
		rig.Must(t, control.Until(t.Context(), nil, "the Secret is refused", func(ctx context.Context) error {
			if _, err := volumes.Secret(ctx, namespace, "csi-stage"); !apierrors.IsForbidden(err) {
				return fmt.Errorf("%w: the error is %w", control.ErrNotYet, err)
			}
			return nil
		}))
	})
}
