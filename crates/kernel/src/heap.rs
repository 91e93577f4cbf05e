/// Keeps the heap of a program with many threads in few parts. Else each thread that ever was may leave a part of its
/// own half empty, and a program that looks after many pods has many threads. Before the first thread is made.
pub fn keep_heap_together() {
    #[cfg(target_env = "gnu")]
    {
        /// As many as threads can be at work at once on a small node; more of them only wait for each other a little.
        const PARTS: libc::c_int = 2;
        // SAFETY: only how much the allocator makes from now on is told to it; it is asked from the only thread.
        let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, PARTS) };
    }
}
