package containerd

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	deleteTask = "/containerd.services.tasks.v1.Tasks/Delete"
	// namespaceKey is the request header with containerd's namespace. All containers of CRI are in criNamespace.
	namespaceKey = "containerd-namespace"
	criNamespace = "k8s.io"
)

// Tasks are the tasks of CRI containers.
type Tasks struct {
	conn    *grpc.ClientConn
	timeout time.Duration
}

// NewTasks returns the tasks of the containerd at the endpoint unix:///path, which is also CRI's. timeout is the time
// limit of a request.
func NewTasks(endpoint string, timeout time.Duration) (*Tasks, error) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &Tasks{conn: conn, timeout: timeout}, nil
}

// Delete deletes the task of a container that isn't running, with a process that waits for the start. It returns nil if
// there is no such task, and an error with codes.Unimplemented from a runtime other than containerd.
func (t *Tasks) Delete(ctx context.Context, container string) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, namespaceKey, criNamespace)
	// A DeleteTaskRequest has one field, number 1: the container's ID. StringValue has the same encoding. The answer's
	// fields, such as the exit status, aren't used.
	err := t.conn.Invoke(ctx, deleteTask, wrapperspb.String(container), &emptypb.Empty{})
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

// Close closes the connection.
func (t *Tasks) Close() error { return t.conn.Close() }
