package apiexpansion

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// claimOf is a claim of 2 Gi whose PersistentVolume has them, and whose status has 1 Gi.
func claimOf(change ...func(*v1.PersistentVolumeClaim)) (*v1.PersistentVolumeClaim, *v1.PersistentVolume) {
	storage := func(n string) v1.ResourceList { return v1.ResourceList{v1.ResourceStorage: resource.MustParse(n)} }
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "claim", ResourceVersion: "7"}}
	c.Spec.Resources.Requests, c.Status.Capacity, c.Status.Phase = storage("2Gi"), storage("1Gi"), v1.ClaimBound
	c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "volume"}}
	pv.Spec.Capacity = storage("2Gi")
	for _, f := range change {
		f(c)
	}
	return c, pv
}

// allocated sets how far the resize is, and the size that is allocated.
func allocated(is v1.ClaimResourceStatus, n string) func(*v1.PersistentVolumeClaim) {
	return func(c *v1.PersistentVolumeClaim) {
		c.Status.AllocatedResources = v1.ResourceList{v1.ResourceStorage: resource.MustParse(n)}
		if is != "" {
			c.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: is}
		}
	}
}

func shared(c *v1.PersistentVolumeClaim) {
	c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
}

func has(n string) func(*v1.PersistentVolumeClaim) {
	return func(c *v1.PersistentVolumeClaim) { c.Status.Capacity[v1.ResourceStorage] = resource.MustParse(n) }
}

// TestDecide: the kubelet's rules (node_expander.go).
func TestDecide(t *testing.T) {
	type change = func(*v1.PersistentVolumeClaim)
	for name, tc := range map[string]struct {
		changes []change
		failed  bool
		want    string
	}{
		"an older resizer":                   {nil, false, "expand to 2Gi"},
		"an older resizer, recorded":         {[]change{has("2Gi")}, false, "expand recorded to 2Gi"},
		"pending":                            {[]change{allocated(v1.PersistentVolumeClaimNodeResizePending, "2Gi")}, false, "expand recovers to 2Gi"},
		"in progress":                        {[]change{allocated(v1.PersistentVolumeClaimNodeResizeInProgress, "3Gi")}, false, "expand recovers to 3Gi"},
		"at the controller":                  {[]change{allocated(v1.PersistentVolumeClaimControllerResizeInProgress, "2Gi")}, false, "recovers to 2Gi"},
		"given up":                           {[]change{allocated(v1.PersistentVolumeClaimNodeResizeInfeasible, "2Gi")}, false, "recovers to 2Gi"},
		"not yet":                            {[]change{allocated("", "2Gi")}, false, "recovers to 2Gi"},
		"done elsewhere":                     {[]change{allocated("", "2Gi"), has("2Gi")}, false, "has recorded recovers to 2Gi"},
		"shared, done elsewhere":             {[]change{allocated("", "2Gi"), has("2Gi"), shared}, false, "expand recorded recovers to 2Gi"},
		"failed, and the claim is as it was": {[]change{allocated(v1.PersistentVolumeClaimNodeResizeInProgress, "2Gi")}, true, "expand recovers to 2Gi"},
		"failed, and the claim wants less":   {[]change{allocated(v1.PersistentVolumeClaimNodeResizeInProgress, "5Gi")}, true, "expand recovers infeasible to 5Gi"},
		"shared, needless": {[]change{allocated("", "2Gi"), has("2Gi"), shared, func(c *v1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{notRequired: "true"}
		}}, false, "has recorded recovers to 2Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			c, pv := claimOf(tc.changes...)
			s := decide(c, pv, tc.failed)
			var words []string
			for i, is := range []bool{s.expand, s.has, s.recorded, s.recovers, s.infeasible} {
				if is {
					words = append(words, []string{"expand", "has", "recorded", "recovers", "infeasible"}[i])
				}
			}
			if got := strings.Join(append(words, "to", s.to.String()), " "); got != tc.want {
				t.Errorf("%s; want %s", got, tc.want)
			}
		})
	}
}

// TestPatch: a status is written with the claim's UID, and with its version where another writer must not be overwritten.
// Other conditions and statuses stay.
func TestPatch(t *testing.T) {
	now := metav1.Now().Rfc3339Copy()
	before, _ := claimOf(allocated(v1.PersistentVolumeClaimNodeResizePending, "2Gi"))
	before.Status.AllocatedResourceStatuses["example.com/other"] = v1.PersistentVolumeClaimControllerResizeInProgress
	before.Status.Conditions = []v1.PersistentVolumeClaimCondition{
		{Type: v1.PersistentVolumeClaimFileSystemResizePending, Status: v1.ConditionTrue}, {Type: "Other", Status: v1.ConditionTrue},
	}
	kept := before.DeepCopy()
	for name, tc := range map[string]struct {
		after     *v1.PersistentVolumeClaim
		versioned bool
		want      string
	}{
		"begun": {inProgress(before), true, `{"metadata":{"resourceVersion":"7","uid":"claim"},"status":{"allocatedResourceStatuses":{"storage":"NodeResizeInProgress"}}}`},
		"finished": {finished(before, resource.MustParse("2Gi")), true, `{"metadata":{"resourceVersion":"7","uid":"claim"},"status":{` +
			`"$setElementOrder/conditions":[{"type":"Other"}],"allocatedResourceStatuses":{"storage":null},"capacity":{"storage":"2Gi"},` +
			`"conditions":[{"$patch":"delete","type":"FileSystemResizePending"}]}}`},
		"nothing": {before, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := patch(before, tc.after, tc.versioned)
			if err != nil || string(data) != tc.want {
				t.Errorf("%s, %v; want\n%s", data, err, tc.want)
			}
		})
	}
	after := failed(before, errors.New("bad disk"), true, now)
	if is := after.Status.AllocatedResourceStatuses[v1.ResourceStorage]; is != v1.PersistentVolumeClaimNodeResizeInfeasible {
		t.Errorf("the resize is %s", is)
	}
	want := v1.PersistentVolumeClaimCondition{
		Type: v1.PersistentVolumeClaimNodeResizeError, Status: v1.ConditionTrue, LastTransitionTime: now, Message: "failed to expand pvc with bad disk",
	}
	if got := after.Status.Conditions; len(got) != 3 || got[2] != want {
		t.Errorf("the conditions are %+v", got)
	}
	if again := failed(after, errors.New("worse"), false, now); len(again.Status.Conditions) != 3 || again.Status.Conditions[2] != want {
		t.Errorf("the conditions after another failure are %+v", again.Status.Conditions)
	}
	data, err := patch(before, after, false)
	var got struct{ Metadata map[string]string }
	if err := errors.Join(err, json.Unmarshal(data, &got)); err != nil || len(got.Metadata) != 1 || got.Metadata["uid"] != "claim" {
		t.Errorf("the patch is %s, %v", data, err)
	}
	if a, b := mustJSON(t, before), mustJSON(t, kept); a != b {
		t.Errorf("the claim that was read is changed: %s", a)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
