// Package layout tests that packages depend on each other in one direction only, as ARCHITECTURE.md shows.
package layout
