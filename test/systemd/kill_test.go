package systemd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/test/csidriver/calllog"
)

const (
	// driverDir has the volumes and the log of the CSI driver, beside the daemons' stores.
	driverDir  = stores + "/csi"
	driverName = "csi.podstream.test"
	driverUnit = "csidriverd.service"
	// volumeRecords is where podexecd records its persistent volumes.
	volumeRecords = stores + "/podexecd/volumes"
	// beforeKill is what TestBeforeKill leaves for TestAfterKill.
	beforeKill = stores + "/before-kill.json"
	// kept is the pod, its claim, its PersistentVolume and the handle.
	kept = "kept"
)

// driverService is started at each boot, as the driver of a node is.
const driverService = `[Unit]
RequiresMountsFor=` + stores + `
[Service]
ExecStart=/usr/local/bin/csidriverd --dir=` + driverDir + ` --backing=image --volumes=` + kept + ` \
  --endpoint=` + kubeletDir + `/plugins/` + driverName + `/csi.sock \
  --registration=` + kubeletDir + `/plugins_registry/` + driverName + `-reg.sock
[Install]
WantedBy=multi-user.target
`

// keptManifest is a pod that adds a line to a file of its volume each time it starts, with its claim, its volume and the driver.
const keptManifest = `
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: kept}
spec: {accessModes: [ReadWriteOnce], volumeName: kept, storageClassName: "", resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: kept}
spec:
  capacity: {storage: 1Mi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  csi: {driver: csi.podstream.test, volumeHandle: kept, fsType: ext4}
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: csi.podstream.test}
spec: {attachRequired: false}
`

// killed is the content of beforeKill.
type killed struct {
	Boot, Container string
	// Calls is the number of the driver's calls.
	Calls int
}

// TestBeforeKill has a pod write to a volume of a CSI driver. The guest is killed after it: nothing is undone.
func TestBeforeKill(t *testing.T) {
	if err := os.WriteFile("/etc/systemd/system/"+driverUnit, []byte(driverService), 0o644); err != nil {
		t.Fatal(err)
	}
	awaitActive(t, podconfigd, podexecd)
	must(t, "mkdir", "-p", driverDir, kubeletDir+"/plugins/"+driverName, kubeletDir+"/plugins_registry")
	must(t, "systemctl", "enable", "--now", driverUnit)
	pod := strings.Replace(manifest(kept, "volumeMounts: [{name: data, mountPath: /data}]}], "+
		"volumes: [{name: data, persistentVolumeClaim: {claimName: kept}}]}}"), "args: [sleep]", "args: [seq, append, /data/lines, line, ;, sleep]", 1)
	if err := os.WriteFile(filepath.Join(manifests, kept+".yaml"), []byte(pod+keptManifest), 0o644); err != nil {
		t.Fatal(err)
	}
	container := awaitRunning(t, kept)[kept]
	awaitLines(t, 1)
	calls := driverCalls(t)
	for _, method := range []string{"NodeStageVolume", "NodePublishVolume"} {
		if n := len(succeeded(calls, method)); n != 1 {
			t.Errorf("%s succeeded %d times; want once", method, n)
		}
	}
	// What isn't written to the disk is lost with a machine's power, for each program.
	must(t, "sync")
	boot := kernelText(t, "/proc/sys/kernel/random/boot_id")
	if records := recordedBoots(t); len(records) != 1 || records[0] != boot {
		t.Fatalf("the boots in the records of volumes are %q; want %q, so that there is a record to be believed", records, boot)
	}
	data, err := json.Marshal(killed{boot, container, len(calls)})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(beforeKill, data, 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "sync")
}

// TestAfterKill: the records of a volume are of the boot before. podexecd doesn't believe that it is mounted: it is staged again before
// it is published, by the driver's log, and the data is intact. At the end nothing is left.
func TestAfterKill(t *testing.T) {
	var before killed
	data, err := os.ReadFile(beforeKill)
	if err == nil {
		err = json.Unmarshal(data, &before)
	}
	if err != nil {
		t.Fatalf("TestBeforeKill didn't run: %v", err)
	}
	boot := kernelText(t, "/proc/sys/kernel/random/boot_id")
	if boot == before.Boot {
		t.Fatal("the guest wasn't killed")
	}
	awaitActive(t, podconfigd, podexecd, driverUnit)
	eventually(t, "the pod runs in a new container", func() error {
		all, err := containers(t, kept)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(c *runtimeapi.Container) bool {
			return c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING && c.GetId() != before.Container
		}) {
			return fmt.Errorf("its containers are %v", all)
		}
		return nil
	})
	awaitLines(t, 2)

	calls := driverCalls(t)
	// The calls of this boot alone: what was staged before isn't.
	ours := calls[before.Calls:]
	for _, problem := range slices.Concat(calllog.Check(ours), calllog.Check(calls)) {
		t.Error(problem)
	}
	for _, method := range []string{"NodeStageVolume", "NodePublishVolume"} {
		if n := len(succeeded(ours, method)); n != 1 {
			t.Errorf("%s succeeded %d times after the boot; want once", method, n)
		}
	}
	for _, c := range ours {
		t.Log(c)
	}
	if records := recordedBoots(t); !slices.Equal(records, []string{boot}) {
		t.Errorf("the boots in the records of volumes are %q; want %q", records, boot)
	}

	remove(t, kept)
	eventually(t, "nothing is left of the volume", func() error {
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil || strings.Contains(string(mounts), kubeletDir) {
			return fmt.Errorf("the mounts: %w\n%s", err, mounts)
		}
		for _, at := range []string{
			volumeRecords + "/*", kubeletDir + "/plugins/kubernetes.io/csi/" + driverName + "/*", kubeletDir + "/pods/*",
		} {
			if left, err := filepath.Glob(at); err != nil || len(left) > 0 {
				return fmt.Errorf("%v are left: %w", left, err)
			}
		}
		if loops := must(t, "losetup", "--list", "--noheadings", "--output", "BACK-FILE"); strings.Contains(loops, driverDir) {
			return fmt.Errorf("loop devices are left: %s", loops)
		}
		return nil
	})
	calls = driverCalls(t)
	for _, problem := range slices.Concat(calllog.Check(calls), calllog.NothingLeft(calls)) {
		t.Error(problem)
	}
}

// awaitLines waits until the pod's file has n lines, and no others: as its container finds it.
func awaitLines(t *testing.T, n int) {
	t.Helper()
	want := strings.Repeat("line\n", n)
	eventually(t, fmt.Sprintf("the file has %d lines", n), func() error {
		found, err := filepath.Glob(kubeletDir + "/pods/*/volumes/kubernetes.io~csi/" + kept + "/mount/lines")
		if err != nil || len(found) != 1 {
			return fmt.Errorf("the files are %q, %w; want one", found, err)
		}
		if got, err := os.ReadFile(found[0]); err != nil || string(got) != want {
			return fmt.Errorf("it has %q, %w", got, err)
		}
		return nil
	})
}

// driverCalls returns the calls of the driver until now.
func driverCalls(t *testing.T) []*calllog.Call {
	t.Helper()
	log, err := calllog.Read(driverDir + "/calls.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return log.Calls
}

// succeeded returns the calls of a method that have succeeded.
func succeeded(calls []*calllog.Call, method string) []*calllog.Call {
	return calllog.Succeeded(slices.DeleteFunc(slices.Clone(calls), func(c *calllog.Call) bool { return c.Method != method }))
}

// recordedBoots returns the boots in podexecd's records of volumes.
func recordedBoots(t *testing.T) (boots []string) {
	t.Helper()
	files, err := filepath.Glob(volumeRecords + "/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		var of struct{ Boot string }
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &of)
		}
		if err != nil {
			t.Fatal(err)
		}
		boots = append(boots, of.Boot)
	}
	return boots
}
