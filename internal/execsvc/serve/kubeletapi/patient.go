package kubeletapi

import (
	"net/http"
	"time"
)

// patiently serves long responses to callers that keep reading: each write has the answer timeout.
func (s *Server) patiently(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&patientWriter{w, http.NewResponseController(w), s.cfg.Limits.AnswerTimeout}, r)
	})
}

type patientWriter struct {
	http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
}

// Write implements io.Writer.
func (w *patientWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.patience))
	return w.ResponseWriter.Write(p)
}

// Unwrap is used by http.ResponseController.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
