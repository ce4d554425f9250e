package node

import (
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// trouble is a lasting failure. It is logged when it begins, when the API server returns another reason for it, and
// when it ends.
type trouble struct {
	log       *slog.Logger
	what, end string

	there  bool
	reason string
}

// is records the result of an attempt.
func (t *trouble) is(err error) {
	reason := string(apierrors.ReasonForError(err))
	switch {
	case err == nil && t.there:
		t.log.Info(t.end) //nolint:sloglint // The fields are set from constants.
	case err != nil && (!t.there || t.reason != reason):
		t.log.Warn(t.what, "error", err) //nolint:sloglint // as above
	}
	t.there, t.reason = err != nil, reason
}
