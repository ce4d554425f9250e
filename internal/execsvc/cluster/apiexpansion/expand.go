package apiexpansion

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// text returns the kubelet's message of an operation.
func text(operation, volume, rest string) string {
	return fmt.Sprintf("%s for volume %q %s", operation, volume, rest)
}

// expand expands a volume, and writes the result to its claim. Only one goroutine does so for a volume.
func (e *Expander) expand(ctx context.Context, v *volume, pod *v1.Pod, spec *v1.Volume) error {
	c, err := e.cfg.Claims.Read(ctx, pod, spec)
	if err != nil {
		return fmt.Errorf("mountVolume.NodeExpandVolume get PVC failed : %w", err)
	}
	claim, pv := c.Claim, c.Volume
	if isReadOnly(spec) {
		message := text("MountVolume.NodeExpandVolume failed", pv.Name, "requested read-only file system")
		e.record(pod, claim, v1.EventTypeWarning, events.FileSystemResizeFailed, message)
		return nil
	}
	e.mu.Lock()
	s := decide(claim, pv, v.failed)
	if s.has {
		v.has = s.to
	}
	e.mu.Unlock()
	if !s.expand {
		return nil
	}
	if s.recovers && !s.recorded {
		if claim, err = e.write(ctx, claim, inProgress(claim), true); err != nil {
			return err
		}
	}
	if err := e.cfg.Expand(ctx, pod.UID, spec.Name, s.to.Value()); err != nil {
		return e.refused(ctx, v, claim, &s, err)
	}
	e.record(pod, claim, v1.EventTypeNormal, events.FileSystemResizeSuccessful, text("MountVolume.NodeExpandVolume succeeded", pv.Name, e.cfg.Node))
	e.mu.Lock()
	v.failed = false
	if s.recorded {
		v.has = s.to
	}
	e.mu.Unlock()
	if s.recorded {
		return nil
	}
	if _, err := e.write(ctx, claim, finished(claim, s.to), true); err != nil {
		// It is expanded again, which changes nothing.
		return fmt.Errorf("mountVolume.NodeExpandVolume update pvc status failed: %w", err)
	}
	e.mu.Lock()
	v.has = s.to
	e.mu.Unlock()
	return nil
}

// refused decides what the driver's error means for the volume and its claim. A volume that can't be expanded while it is
// used is no error.
func (e *Expander) refused(ctx context.Context, v *volume, claim *v1.PersistentVolumeClaim, s *size, err error) error {
	unsupported := errors.Is(err, storage.ErrNoExpand)
	if unsupported && (s.recorded || !s.recovers) {
		e.mu.Lock()
		defer e.mu.Unlock()
		v.has = s.to
		return nil
	}
	code := codeOf(err)
	if final := unsupported || storage.OutcomeOf(err) == storage.Final; final && s.recovers {
		infeasible := s.infeasible || code == codes.InvalidArgument || code == codes.OutOfRange || code == codes.NotFound
		if _, failure := e.write(ctx, claim, failed(claim, err, infeasible, metav1.NewTime(e.cfg.Clock.Now())), false); failure != nil {
			e.cfg.Log.Warn("the failed expansion of a volume can't be written to its claim; it is tried again after the next failure",
				"claim", claim.Namespace+"/"+claim.Name, "error", failure)
		}
		e.mu.Lock()
		v.failed = true
		e.mu.Unlock()
	}
	if code == codes.FailedPrecondition {
		e.mu.Lock()
		v.inUse = true
		e.mu.Unlock()
		e.cfg.Log.Warn("the driver can't expand a volume while it is in use; it is expanded when it is mounted the next time",
			"claim", claim.Namespace+"/"+claim.Name, "error", err)
		return nil
	}
	return err
}

// codeOf returns the code of a driver's own answer. OK: the error isn't one.
func codeOf(err error) codes.Code {
	if answer, ok := errors.AsType[*csi.Error](err); ok && answer.Answered {
		return answer.Code
	}
	return codes.OK
}

// record records an event of the pod, and of the claim.
func (e *Expander) record(pod *v1.Pod, claim *v1.PersistentVolumeClaim, eventType, reason, message string) {
	e.cfg.PodEvent(pod, eventType, reason, message)
	e.cfg.ClaimEvent(claim, eventType, reason, message)
}

// write writes a claim's status, and returns the API server's answer.
func (e *Expander) write(ctx context.Context, before, after *v1.PersistentVolumeClaim, versioned bool) (*v1.PersistentVolumeClaim, error) {
	data, err := patch(before, after, versioned)
	if err != nil {
		return before, fmt.Errorf("describe the new status of claim %s/%s: %w", before.Namespace, before.Name, err)
	}
	if data == nil {
		return before, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	got, err := e.cfg.Client.Claims(before.Namespace).Patch(ctx, before.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	if err != nil {
		return before, fmt.Errorf("patchPVCStatus failed to patch PVC %q: %w", before.Name, err)
	}
	if got.UID != before.UID || got.Name != before.Name || got.Namespace != before.Namespace {
		return before, fmt.Errorf("the API server's response has another object than claim %s/%s", before.Namespace, before.Name)
	}
	got.ManagedFields = nil
	e.cfg.Claims.Update(got)
	return got, nil
}
