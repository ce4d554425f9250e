package cridiff

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// resize resizes the pods of the batch, all at the same time, and waits until the agent says that each is done.
func (s *Site) resize(ctx context.Context, batch []*v1.Pod) error {
	for _, pod := range batch {
		if err := s.api.resize(ctx, s.Resized[pod.UID]); err != nil {
			return fmt.Errorf("resize %s: %w", pod.UID, err)
		}
	}
	return s.api.until(ctx, "the pods are resized", func(ctx context.Context) error {
		known, err := s.api.pods(ctx)
		if err != nil {
			return err
		}
		for _, pod := range batch {
			of := known[pod.UID]
			if of == nil {
				return fmt.Errorf("the API server has no %s", pod.UID)
			}
			if !isResized(of, s.Resized[pod.UID]) {
				return fmt.Errorf("%s isn't: generation %d, status %+v", pod.UID, of.Generation, of.Status)
			}
		}
		return nil
	})
}

// beyondNode reports whether the message says that the request is more than the node has, so that no end of another pod helps.
func beyondNode(message string) bool {
	var name string
	var requested, used, capacity int64
	_, err := fmt.Sscanf(message, "Node didn't have enough resource: %s requested: %d, used: %d, capacity: %d", &name, &requested, &used, &capacity)
	return err == nil && requested > capacity
}

// isResized reports whether, by its status, the pod has the resources and runs, or can't have them on this node.
func isResized(of, want *v1.Pod) bool {
	status := &of.Status
	if status.ObservedGeneration != of.Generation {
		return false
	}
	if c := conditionOf(of, v1.PodResizePending); c != nil {
		return c.Reason == v1.PodReasonInfeasible || c.Reason == v1.PodReasonDeferred && beyondNode(c.Message)
	}
	if conditionOf(of, v1.PodResizeInProgress) != nil {
		return false
	}
	statuses := slices.Concat(status.InitContainerStatuses, status.ContainerStatuses)
	return !slices.ContainsFunc(slices.Concat(want.Spec.InitContainers, want.Spec.Containers), func(c v1.Container) bool {
		at := slices.IndexFunc(statuses, func(s v1.ContainerStatus) bool { return s.Name == c.Name })
		if at < 0 {
			return true
		}
		has := &statuses[at]
		return has.State.Running == nil || has.Resources == nil || !equality.Semantic.DeepEqual(has.AllocatedResources, c.Resources.Requests) ||
			!equality.Semantic.DeepEqual(*has.Resources, c.Resources)
	})
}

// conditionOf returns the pod's condition, or nil.
func conditionOf(pod *v1.Pod, of v1.PodConditionType) *v1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == of })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}
