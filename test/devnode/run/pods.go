package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
)

const (
	// runningTimeout bounds the wait for the sample pod to run.
	runningTimeout = 60 * time.Second
	// pollInterval is the interval of the requests to podexecd.
	pollInterval = 50 * time.Millisecond
)

// execClient requests the pods from podexecd.
type execClient struct {
	*grpc.ClientConn
	service podexecv1.PodExecServiceClient
}

func dialExec(endpoint string) (*execClient, error) {
	// podexecd is just starting, and gRPC's default pause before the second attempt is one second.
	soon := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: pollInterval, Multiplier: 1, MaxDelay: pollInterval},
		MinConnectTimeout: time.Second,
	}
	conn, err := grpc.NewClient(endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(soon))
	if err != nil {
		return nil, err
	}
	return &execClient{ClientConn: conn, service: podexecv1.NewPodExecServiceClient(conn)}, nil
}

// waitRunning waits until there are pods and all of them are Running.
func (c *execClient) waitRunning(ctx context.Context, podexecd *devnode.Process) error {
	ctx, cancel := context.WithTimeout(ctx, runningTimeout)
	defer cancel()
	return c.wait(ctx, podexecd, "Running", func(pods []*podexecv1.ObservedPod) bool {
		for _, pod := range pods {
			if pod.GetPhase() != "Running" {
				return false
			}
		}
		return len(pods) > 0
	})
}

// waitGone waits until there are no pods.
func (c *execClient) waitGone(ctx context.Context, podexecd *devnode.Process) error {
	return c.wait(ctx, podexecd, "gone", func(pods []*podexecv1.ObservedPod) bool { return len(pods) == 0 })
}

// wait requests the pods until they are as wanted, podexecd ends, or ctx ends. Its error contains the last state of
// the pods.
func (c *execClient) wait(
	ctx context.Context, podexecd *devnode.Process, state string, wanted func([]*podexecv1.ObservedPod) bool,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // cancels a call that waits for the connection
		select {
		case <-podexecd.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	last := "podexecd never answered"
	request := &podexecv1.ListPodsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE}
	for {
		response, err := c.service.ListPods(ctx, request, grpc.WaitForReady(true))
		switch {
		case err == nil && wanted(response.GetPods()):
			return nil
		case err == nil:
			last = describe(response.GetPods())
		case ctx.Err() == nil:
			last = err.Error()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if !runs(podexecd) {
				return ended(podexecd)
			}
			return fmt.Errorf("wait for the pods to be %s: %w; last seen: %s; podexecd's output ends with:\n%s",
				state, ctx.Err(), last, podexecd.LogTail())
		}
	}
}

func describe(pods []*podexecv1.ObservedPod) string {
	if len(pods) == 0 {
		return "no pods"
	}
	var lines []string
	for _, pod := range pods {
		line := fmt.Sprintf("%s/%s %s %s", pod.GetRef().GetNamespace(), pod.GetRef().GetName(), pod.GetPhase(), pod.GetWorkerState())
		if pod.GetLastError() != "" {
			line += ": " + pod.GetLastError()
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}
