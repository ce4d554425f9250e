package client

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// PodError is the reason why a consumer couldn't apply one pod.
type PodError struct {
	UID             types.UID
	Namespace, Name string
	// Reason is one word in CamelCase, as in a pod's status.reason.
	Reason string
	// Message explains the reason to a user.
	Message string
}

// ReportApplied reports to podconfigd that the events up to the cursor are applied, and which pods the consumer
// refused. It accepted all other pods. ListConsumers shows the report. Errors are gRPC's, wrapped.
func (c *Client) ReportApplied(ctx context.Context, cursor *podconfigv1.Cursor, refused []PodError) error {
	return c.report(ctx, podconfigv1.ApplyOutcome_APPLY_OUTCOME_APPLIED, cursor, refused)
}

// ReportRejected reports to podconfigd that the event with this cursor couldn't be applied, and which pods were the
// reason. The consumer stays at the event before. Errors are gRPC's, wrapped.
func (c *Client) ReportRejected(ctx context.Context, cursor *podconfigv1.Cursor, reasons []PodError) error {
	return c.report(ctx, podconfigv1.ApplyOutcome_APPLY_OUTCOME_REJECTED, cursor, reasons)
}

func (c *Client) report(ctx context.Context, outcome podconfigv1.ApplyOutcome, cursor *podconfigv1.Cursor, pods []PodError) error {
	req := &podconfigv1.ReportAppliedRequest{Consumer: c.cfg.Consumer, Cursor: cursor, Outcome: outcome}
	for _, p := range pods {
		req.Errors = append(req.Errors, &podconfigv1.PodError{
			Ref:    &podconfigv1.PodRef{Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name},
			Reason: p.Reason, Message: p.Message,
		})
	}
	if _, err := c.api.ReportApplied(ctx, req); err != nil {
		return fmt.Errorf("report revision %d to podconfigd: %w", cursor.GetRevision(), err)
	}
	return nil
}
