package service

import (
	"context"
	"errors"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/podctl/web/door"
	"github.com/podstream/podstream/internal/podctl/web/plaintext"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
)

// refuse returns an error of the page's request.
func refuse(code connect.Code, text string) error {
	return connect.NewError(code, errors.New(plaintext.Line(text, plaintext.Message)))
}

// failed returns the error of a call to a daemon, with the daemon's code: Connect has gRPC's.
func failed(d *upstream.Daemon, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, err)
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	}
	code := connect.CodeUnknown
	if st, ok := status.FromError(err); ok {
		code = connect.Code(st.Code())
		if code == connect.CodeUnauthenticated {
			// For the page, this code means that its session is over.
			code = connect.CodePermissionDenied
		}
		if d != nil && d.Explain != nil {
			err = d.Explain(err)
		}
	}
	// A write may have several problems, a line each.
	return refuse(code, strings.ReplaceAll(err.Error(), "\n", "; "))
}

// ticketError returns the error of an OpenSession.
func ticketError(err error) error {
	if errors.Is(err, door.ErrTicketUsed) || errors.Is(err, door.ErrTicketExpired) || errors.Is(err, door.ErrTicketUnknown) {
		return connect.NewError(connect.CodeUnauthenticated, err)
	}
	return connect.NewError(connect.CodeInternal, err)
}
