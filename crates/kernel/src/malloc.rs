/// Limits the number of malloc arenas. Otherwise each thread that ever ran may leave an arena of its own half empty,
/// and a program that manages many pods has many threads. Call it before the first thread is spawned.
pub fn limit_malloc_arenas() {
    #[cfg(target_env = "gnu")]
    {
        /// Enough for the threads that allocate at the same time on a small node; further threads wait briefly.
        const ARENAS: libc::c_int = 2;
        // SAFETY: `mallopt` takes no pointer and changes only later allocations; the caller has one thread.
        let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS) };
    }
}
