package node

import (
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// trouble is something that can go wrong for long. It is told when it begins, when the API server gives another reason for it, and when it ends.
type trouble struct {
	log       *slog.Logger
	what, end string

	there  bool
	reason string
}

// is notes how it went.
func (t *trouble) is(err error) {
	reason := string(apierrors.ReasonForError(err))
	switch {
	case err == nil && t.there:
		t.log.Info(t.end) //nolint:sloglint // Who makes one says it in constants.
	case err != nil && (!t.there || t.reason != reason):
		t.log.Warn(t.what, "error", err) //nolint:sloglint // as above
	}
	t.there, t.reason = err != nil, reason
}
