// Package manifestplace finds the place of a finding in the manifest that it is about, and the lines around it.
//
// podconfigd reports which field of which document is wrong. The line follows from the content of the file: package service has
// that of a manifest that was dropped on the page, and package board reads it from the source's directory.
//
// It is pure.
package manifestplace
